// SPDX-License-Identifier: Apache-2.0
// From a plan to a layer: the knobs become configurations, and a plan that was made for another
// shape or GPU is refused with both values named.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "choice/plan.hpp"
#include "gpu/device.hpp"
#include "runtime/layer.hpp"

namespace ramp {

struct PlanUse {
  int experts = 0;       // E of the model
  int first_expert = 0;  // of the contiguous share, where expert_map is empty
  std::vector<int> expert_map;
  std::optional<LocalShape> shape;        // of the weights at hand; nothing: not compared
  std::optional<gpu::DeviceInfo> device;  // it will run there; nothing: not compared
  bool foreign_gpu = false;               // run it on another GPU than the plan's all the same
};

// Of the plan's own menu, that of the largest passes.  Throws Error with a JSON pointer into the
// plan.
LayerOptions options_from_plan(const Plan& plan, const PlanUse& use);

// The options of every part of a plan, small passes first; up_to is 0 for the last, which has no
// limit.  Throws as options_from_plan does.
struct SizedOptions {
  int up_to = 0;
  LayerOptions options;
};
std::vector<SizedOptions> all_options_from_plan(const Plan& plan, const PlanUse& use);

// Throws Error when the plan was made for another GPU than `device`.
void require_plan_gpu(const Plan& plan, const gpu::DeviceInfo& device);

// Empty, or why the plan's predictions may be off although it runs: its times were measured with
// other device code, or its file was edited.
std::string plan_staleness(const Plan& plan);

}  // namespace ramp
