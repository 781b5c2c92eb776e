// SPDX-License-Identifier: Apache-2.0
// libFuzzer on the trace container: whatever the bytes, the reader gives a consistent trace or
// throws Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "problem/trace_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ramp::TraceLimits limits;
  limits.max_ids = 1u << 22;
  limits.max_chunk_bytes = 1u << 22;
  ramp::ReadTrace read;
  try {
    read = ramp::read_trace_bytes({reinterpret_cast<const char*>(data), size}, limits);
  } catch (const ramp::Error&) {
    return 0;
  }
  // What was accepted holds together: a complaint here is a finding.
  try {
    ramp::check_trace(read.trace);
  } catch (const ramp::Error&) {
    std::abort();
  }
  return 0;
}
