// SPDX-License-Identifier: Apache-2.0
// NVRTC, NVIDIA's compiler as a library, opened when it is first needed.  It is found in a toolkit,
// in the wheels that PyPI has, or where RAMP_NVRTC says.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.hpp"

struct _nvrtcProgram;

namespace ramp::gpu {

using nvrtcProgram = _nvrtcProgram*;

// X(symbol, parameters), as in driver.hpp.
#define RAMP_NVRTC_ENTRY_POINTS(X)                                                          \
  X(nvrtcVersion, (int*, int*))                                                             \
  X(nvrtcCreateProgram,                                                                     \
    (nvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*)) \
  X(nvrtcDestroyProgram, (nvrtcProgram*))                                                   \
  X(nvrtcCompileProgram, (nvrtcProgram, int, const char* const*))                           \
  X(nvrtcGetCUBINSize, (nvrtcProgram, std::size_t*))                                        \
  X(nvrtcGetCUBIN, (nvrtcProgram, char*))                                                   \
  X(nvrtcGetProgramLogSize, (nvrtcProgram, std::size_t*))                                   \
  X(nvrtcGetProgramLog, (nvrtcProgram, char*))

struct Nvrtc {
#define RAMP_DECLARE(symbol, parameters) int(*symbol) parameters = nullptr;
  RAMP_NVRTC_ENTRY_POINTS(RAMP_DECLARE)
#undef RAMP_DECLARE
  const char* (*nvrtcGetErrorString)(int) = nullptr;
  int major = 0, minor = 0;
  std::string path;  // the file that was opened
};

// Throws Error saying where it was looked for and how to get it.
const Nvrtc& nvrtc();
bool nvrtc_available(std::string* why = nullptr);
std::string nvrtc_version();  // "13.0"

// The files that would be tried, best first: RAMP_NVRTC, what the dynamic loader knows, toolkits,
// Python environments.
std::vector<std::string> nvrtc_candidates();

}  // namespace ramp::gpu
