// SPDX-License-Identifier: Apache-2.0
// What the verbs that need a GPU share: opening it with a refusal that helps, and reading shapes
// and lists of configurations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/clocks.hpp"
#include "gpu/cubin_cache.hpp"
#include "gpu/device.hpp"
#include "kernels/ffn/config.h"
#include "problem/shape.h"

namespace ramp::cli {

// The GPU that a verb runs on.  Throws Error where there is none that runs the kernels.
struct OpenGpu {
  explicit OpenGpu(int device);
  gpu::Context context;
  gpu::Clocks clocks;
  std::unique_ptr<gpu::CubinCache> cache;
};

// "8,2048,1024,8": E,d,h,k.  Throws Error naming the flag and the dimension.
LocalShape shape_of_text(const std::string& flag, const std::string& text);

// "f1-r8-c256-s6-w2-dynamic,..." in this order.
std::vector<FfnConfig> configs_of_labels(const std::string& flag, const std::string& text);

// Text between commas.
std::vector<std::string> split_list(const std::string& text, char separator = ',');

}  // namespace ramp::cli
