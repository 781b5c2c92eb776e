// SPDX-License-Identifier: Apache-2.0
#include "lab/campaign_minutes.hpp"

#include <charconv>

#include "lab/measurement_file.hpp"

namespace ramp {

double minutes_of_note(const std::string& text) {
  double minutes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), minutes);
  return error == std::errc() && minutes > 0 ? minutes : 0;
}

double campaign_minutes(const std::string& path) {
  Database database(path, Database::Mode::kReadOnly);
  check_whole(database);
  const auto meta = read_meta(database);
  const auto it = meta.find(std::string("campaign.") + kMinutesNote);
  return it == meta.end() ? 0 : minutes_of_note(it->second);
}

}  // namespace ramp
