// SPDX-License-Identifier: Apache-2.0
// The per-GPU table (Section 4): indexed by the tokens that this GPU received, blind to how they
// spread over its experts.
#include "choice/policies/spread_policy.hpp"

namespace ramp {

PolicyKind gpu_table() {
  return {"gpu-table", "table keyed by each GPU's own token count", Sight::kGpuCount, Role::kTrain,
          [](const PolicyOptions&) { return spread_policy({}); }};
}

}  // namespace ramp
