// SPDX-License-Identifier: Apache-2.0
#include "choice/policy.hpp"

#include "base/error.hpp"

namespace ramp {

// One a file of policies/.
PolicyKind fixed_default();
PolicyKind vllm_tuning();
PolicyKind trace_table();
PolicyKind gpu_table();
PolicyKind cost_model();
PolicyKind cost_model_menu();
PolicyKind menu_table();
PolicyKind menu_exhaustive();
PolicyKind exhaustive();

const std::vector<PolicyKind>& policy_kinds() {
  static const std::vector<PolicyKind> kinds = {
      fixed_default(),   vllm_tuning(), trace_table(),     gpu_table(),  cost_model(),
      cost_model_menu(), menu_table(),  menu_exhaustive(), exhaustive(),
  };
  return kinds;
}

const PolicyKind& policy_kind(std::string_view name) {
  std::vector<std::string> names;
  for (const PolicyKind& kind : policy_kinds()) {
    if (kind.name == name) return kind;
    names.push_back(kind.name);
  }
  throw Error("policy", std::string(name), fmt::format("{}", fmt::join(names, ", ")),
              "pick from these, or say `all`");
}

}  // namespace ramp
