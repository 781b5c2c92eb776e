// SPDX-License-Identifier: Apache-2.0
// Arrival traces: when requests reached a server and how long they were, without any routing.
// Open-loop replay takes its times, and the lengths too where it is told so (replay.hpp).
// docs/traces.md says which public formats are read and what the project's own looks like.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ramp {

struct Arrival {
  double time_s = 0;  // from the first request of the trace
  int prompt = 0;     // tokens
  int output = 0;     // tokens that were generated
};

struct ArrivalTrace {
  std::string name;               // the file's, for labels
  std::string format;             // as it was read: "azure", "mooncake", ...
  std::string source, licence;    // of the `#` lines of the project's own format
  std::vector<Arrival> requests;  // ascending in time
  long long empty = 0;            // rows without a token, left out

  double duration_s() const { return requests.empty() ? 0 : requests.back().time_s; }
  double rate() const;  // requests per second, 0 of fewer than two
};

// CSV with a header or JSON lines (or one JSON list) of objects.  Times come out shifted to 0 and
// sorted.  Throws Error for what is neither, for columns that are missing and for numbers that no
// request has.
ArrivalTrace parse_arrivals(std::string_view text, const std::string& name);

// The same of a file, .gz too.
ArrivalTrace read_arrivals(const std::filesystem::path& path);

// The project's own format: `#` lines with source and licence, then
// t_s,prompt_tokens,output_tokens.
std::string arrivals_csv(const ArrivalTrace& trace);

}  // namespace ramp
