// SPDX-License-Identifier: Apache-2.0
#include "cli/load_input.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/error.hpp"
#include "choice/measured.hpp"
#include "problem/text_file.hpp"

namespace ramp::cli {
namespace {

std::vector<int> parse_counts(const std::string& text, const std::string& field) {
  std::vector<int> counts;
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    if (std::string_view(" \t\r,[]").find(*at) != std::string_view::npos) {
      ++at;
      continue;
    }
    int value = 0;
    const auto [next, status] = std::from_chars(at, end, value);
    if (status != std::errc() || value < 0 || counts.size() >= static_cast<size_t>(kMaxExperts))
      throw Error(field, fmt::format("'{}'", text.substr(at - text.data(), 40)),
                  fmt::format("up to {} whole numbers from 0, as 8,8,0,30", kMaxExperts),
                  "give the tokens of each local expert");
    counts.push_back(value);
    at = next;
  }
  return counts;
}

}  // namespace

std::vector<std::vector<int>> read_loads(const std::string& load, const std::string& counts_file) {
  if (load.empty() == counts_file.empty())
    throw Error("--load, --counts-file", load.empty() ? "neither" : "both", "one of them",
                "say --load 8,8,0,30,... with the tokens of each local expert");
  if (!load.empty()) return {parse_counts(load, "--load")};
  std::vector<std::vector<int>> loads;
  const std::string text = read_whole_file(counts_file, "counts", 4 << 20);
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos || line[0] == '#') continue;
    loads.push_back(parse_counts(line, fmt::format("{}:{}", counts_file, number)));
  }
  if (loads.empty())
    throw Error(counts_file, "no load", "one load a line", "write 8,8,0,30,... in it");
  return loads;
}

}  // namespace ramp::cli
