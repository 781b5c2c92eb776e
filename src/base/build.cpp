// SPDX-License-Identifier: Apache-2.0
#include "base/build.hpp"

#include <ctime>

#include "commit.h"

namespace ramp {

std::string build_commit() { return RAMP_COMMIT; }
std::string build_version() { return "0.1.0"; }

std::string today() {
  std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

}  // namespace ramp
