// SPDX-License-Identifier: Apache-2.0
// Source text to cubin, by NVRTC, without a GPU.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/cubin.hpp"

namespace ramp::gpu {

struct CompileRequest {
  std::string name;    // for people and file names: "ffn_r8_w256"
  std::string source;  // of the one translation unit
  // What #include may name -> its text.  There is no include path: what isn't here isn't found.
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<std::string> options;  // beside those of effective_options()
  std::string arch = "sm_90a";
};

// Everything NVRTC is told: language, architecture, the report of resources, then the request's
// own.
std::vector<std::string> effective_options(const CompileRequest& request);

// Throws Error with the first lines of the log when the source doesn't compile.
Cubin compile(const CompileRequest& request);

// One of the two is there.
struct CompileResult {
  std::optional<Cubin> cubin;
  std::string error;
};

// done: requests finished; last: the index of the one that just was.  Called in the calling thread.
using CompileProgress = std::function<void(std::size_t done, std::size_t total, std::size_t last)>;

// Compiles all, `jobs` at a time (0: one a core), results in the order of the requests; one that
// fails doesn't stop the others.  Works in child processes: NVRTC's front end holds one lock a
// process (measured on two cores, sources heavy on the front end: 2 threads 0.25-0.33 s each, 2
// processes 0.17 s, one after the other 0.22-0.28 s; sources heavy on ptxas gain the same either
// way), and a compiler that crashes takes only its own request along.
std::vector<CompileResult> compile_all(std::span<const CompileRequest> requests, int jobs = 0,
                                       const CompileProgress& progress = {});

}  // namespace ramp::gpu
