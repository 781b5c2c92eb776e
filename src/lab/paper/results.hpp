// SPDX-License-Identifier: Apache-2.0
// The paper's results by name.  A new one is a file in this folder and a row in results.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "lab/paper/report.hpp"
#include "lab/paper/request.hpp"

namespace ramp {

struct PaperResult {
  const char* name;     // "table3"
  const char* summary;  // one line
  Report (*make)(const PaperRequest&);
  // Whether it takes times from a file like this one; null: it rests on no times.
  bool (*rests_on)(const MeasuredFile&) = nullptr;
  bool of_foreign = false;  // rests on measurements of kernels that are not ramp's
};

const std::vector<PaperResult>& paper_results();

// The name that stands for all of them.
inline constexpr std::string_view kAllResults = "all";

// Throws Error naming those that exist.
const PaperResult& paper_result(std::string_view name);

}  // namespace ramp
