// SPDX-License-Identifier: Apache-2.0
#include "choice/policy.hpp"

#include "base/error.hpp"

namespace ramp {

// One a file of policies/.
PolicyKind fixed_default();
PolicyKind as_shipped();
PolicyKind vllm_tuner();
PolicyKind vllm_tuning();
PolicyKind trace_table();
PolicyKind gpu_table();
PolicyKind gpu_padding_table();
PolicyKind gpu_active_table();
PolicyKind gpu_peak_table();
PolicyKind gpu_variation_table();
PolicyKind gpu_3d_table();
PolicyKind neighbors();
PolicyKind nearest_spectrum();
PolicyKind tile_formula();
PolicyKind cost_model();
PolicyKind cost_model_weighted();
PolicyKind cost_model_extended();
PolicyKind cost_model_sized();
PolicyKind cost_model_cross();
PolicyKind menu_table();
PolicyKind cost_model_menu();
PolicyKind cost_model_menus();
PolicyKind menu_exhaustive();
PolicyKind exhaustive();

std::string_view sight_name(Sight sight) {
  switch (sight) {
    case Sight::kNothing:
      return "nothing";
    case Sight::kBatch:
      return "batch";
    case Sight::kGpuCount:
      return "GPU's count";
    case Sight::kLoad:
      return "load";
    case Sight::kTimes:
      return "times";
  }
  return "";
}

const std::vector<PolicyKind>& policy_kinds() {
  static const std::vector<PolicyKind> kinds = {
      fixed_default(),       vllm_tuner(),        vllm_tuning(),         trace_table(),
      gpu_table(),           gpu_padding_table(), gpu_active_table(),    gpu_peak_table(),
      gpu_variation_table(), gpu_3d_table(),      neighbors(),           nearest_spectrum(),
      tile_formula(),        cost_model(),        cost_model_weighted(), cost_model_extended(),
      cost_model_sized(),    menu_table(),        cost_model_menu(),     cost_model_menus(),
      menu_exhaustive(),     exhaustive(),
  };
  return kinds;
}

const std::vector<PolicyKind>& transfer_policy_kinds() {
  static const std::vector<PolicyKind> kinds = {cost_model_cross()};
  return kinds;
}

const PolicyKind& shipped_policy_kind() {
  static const PolicyKind kind = as_shipped();
  return kind;
}

const PolicyKind& policy_kind(std::string_view name, const std::string& field,
                              const std::string& next) {
  std::vector<std::string> names;
  for (const PolicyKind& kind : policy_kinds()) {
    if (kind.name == name) return kind;
    names.push_back(kind.name);
  }
  for (const PolicyKind& kind : transfer_policy_kinds())
    if (kind.name == name) return kind;
  if (name == kShippedPolicy) return shipped_policy_kind();
  throw Error(field, std::string(name), fmt::format("{}", fmt::join(names, ", ")), next);
}

}  // namespace ramp
