// SPDX-License-Identifier: Apache-2.0
// A small plan that names real configurations, for tests that turn plans into layers.
#pragma once

#include "choice/plan.hpp"
#include "kernels/ffn/space.hpp"
#include "problem/catalog.hpp"
#include "runtime/default_menu.hpp"

namespace ramp {

inline Plan example_plan(int entries = 3) {
  Plan plan;
  plan.model = "qwen3-30b";
  plan.layout = "ep8";
  plan.gpus = 8;
  plan.shape = {16, 8, 2048, 768};
  plan.gpu = {"NVIDIA H200", 9, 0, 132, 150754820096LL};
  for (const FfnConfig& c : default_menu()) {
    if (static_cast<int>(plan.menu.size()) == entries) break;
    PlanEntry entry{ffn_label(c), ffn_knobs(c),
                    ffn_grid(c, plan.shape.hidden, plan.shape.intermediate, 132)};
    entry.theta = planned_theta(c, plan.shape, find_gpu("h200"));
    plan.menu.push_back(entry);
  }
  return plan;
}

}  // namespace ramp
