// SPDX-License-Identifier: Apache-2.0
// The campaign's timer on a real GPU: the lab's seam on one side, the kernels on the other.
#pragma once

#include <memory>

#include "lab/timer.hpp"

namespace ramp::cli {

// Throws Error where the machine has no such GPU, or one that doesn't run the kernels.
std::unique_ptr<KernelTimer> make_gpu_timer(int device);

}  // namespace ramp::cli
