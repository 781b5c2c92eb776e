// SPDX-License-Identifier: Apache-2.0
// What a campaign and its worker say to each other: one JSON object a line, a request and then its
// reply, with lines of progress before the reply of a long one.  These are KernelTimer's calls
// (lab/timer.hpp) as text; both ends are the same program, but the reader checks every number,
// since a worker that went wrong may write anything.
#pragma once

#include <string>
#include <vector>

#include "lab/timer.hpp"

namespace ramp {

struct Request {
  enum class Kind { kOpen, kPrepare, kVerify, kMeasure };
  Kind kind = Kind::kOpen;
  LocalShape shape;                 // kOpen
  std::vector<std::string> labels;  // kPrepare; kVerify: one
  MeasureRequest measure;           // kMeasure
};

struct Reply {
  bool is_progress = false;                  // more lines follow
  int done = 0, total = 0;                   // of progress
  std::string error;                         // the call threw: nothing else is set
  Provenance environment;                    // kOpen
  std::vector<TimedConfig> configs;          // kOpen: the space; kPrepare
  std::string verdict;                       // kVerify
  std::vector<std::vector<Sample>> samples;  // kMeasure
};

// Without the newline.
std::string encode(const Request& request);
std::string encode(const Reply& reply);

// Throw Error for anything that is not one of the above.
Request decode_request(const std::string& line);
Reply decode_reply(const std::string& line);

inline constexpr std::size_t kMaxLineBytes = 256u << 20;

}  // namespace ramp
