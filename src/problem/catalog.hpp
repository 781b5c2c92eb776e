// SPDX-License-Identifier: Apache-2.0
// The models and GPUs that ramp knows by name (the paper's Table 1 and the models people serve
// besides), one row each. A model that is not here comes from its config.json (model_config.hpp).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "problem/gpu_spec.h"
#include "problem/shape.h"

namespace ramp {

struct Model {
  std::string name;       // short, as on the command line and in records: "qwen3-30b"
  std::string full_name;  // as its publishers write it
  MoeShape shape;
  int moe_layers = 0;       // layers with routed experts
  int first_moe_layer = 0;  // decoder index of the first of them
  // Group-limited routing (DeepSeek-V3): the experts stand in `groups` groups and a token uses
  // `groups_kept` of them.
  int groups = 1;
  int groups_kept = 1;
  // Why ramp's FP8 layer refuses this model's experts; empty: it runs them.  Routing is kept either
  // way.
  std::string refusal;
  std::string source;  // where the numbers come from
};

std::span<const Model> catalog_models();
std::span<const GpuSpec> catalog_gpus();

// Throw Error with the list of names where there is none of that name.
const Model& find_model(const std::string& name);
const GpuSpec& find_gpu(const std::string& name);
// The constants of the GPU that the driver calls so, or of the nearest that is known.
const GpuSpec& gpu_like(const std::string& product);

// Null where there is none.
const Model* find_model_or_null(const std::string& name);

}  // namespace ramp
