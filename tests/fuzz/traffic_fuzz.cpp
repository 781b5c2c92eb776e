// SPDX-License-Identifier: Apache-2.0
// libFuzzer on arrival traces and counts: whatever the bytes, a consistent value or Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "problem/arrivals.hpp"
#include "problem/counts_import.hpp"
#include "problem/trace.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const ramp::ArrivalTrace trace = ramp::parse_arrivals(bytes, "fuzz");
    double before = 0;
    for (const ramp::Arrival& a : trace.requests) {
      if (!(a.time_s >= before) || a.prompt < 0 || a.output < 0) std::abort();
      before = a.time_s;
    }
  } catch (const ramp::Error&) {
  }
  try {
    const ramp::ExpertCounts counts = ramp::parse_counts(bytes, "fuzz");
    if (counts.counts.size() !=
        static_cast<std::size_t>(counts.steps) * counts.layers * counts.experts)
      std::abort();
    ramp::ImportOptions options;
    options.info.top_k = 2;
    ramp::check_trace(ramp::trace_of_counts(counts, options).trace);
  } catch (const ramp::Error&) {
  }
  return 0;
}
