// SPDX-License-Identifier: Apache-2.0
// A pool of forked processes that turn requests into results.  The children claim the next request
// from a shared counter and write results into a pipe each; the parent reads, reports, and replaces
// a child that died.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "gpu/compiler.hpp"

namespace ramp::gpu {

// `work` runs in the children and must not throw.  Children leave with _exit and die with their
// parent.
std::vector<CompileResult> run_compile_workers(
    std::span<const CompileRequest> requests, int jobs, const CompileProgress& progress,
    const std::function<CompileResult(const CompileRequest&)>& work);

}  // namespace ramp::gpu
