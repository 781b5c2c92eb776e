// SPDX-License-Identifier: Apache-2.0
// A model's geometry from a config.json of the Hugging Face kind.  Architectures spell the same
// number in many ways (num_experts, n_routed_experts, num_local_experts, ...); what can't be found
// may be given by hand.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "problem/catalog.hpp"

namespace ramp {

// Numbers given on the command line; 0 where the file decides.  They win over the file.
struct ModelOverrides {
  int experts = 0;       // --E
  int top_k = 0;         // --k
  int hidden = 0;        // --hidden
  int intermediate = 0;  // --inter
  int moe_layers = 0;    // --layers
};

// text: the whole file.  Throws Error for text that is no JSON object, for numbers out of range and
// for a field that neither text nor overrides give.
Model model_from_config(std::string_view text, const ModelOverrides& overrides = {});
Model read_model_config(const std::filesystem::path& path, const ModelOverrides& overrides = {});

// A model by its four numbers alone.
Model model_from_overrides(const std::string& name, const ModelOverrides& overrides);

// Throws Error unless E, k, d, h and the groups make a layer.
void check_model(const Model& model);

}  // namespace ramp
