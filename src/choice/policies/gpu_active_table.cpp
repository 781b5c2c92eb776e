// SPDX-License-Identifier: Apache-2.0
// Token count x active experts (Table 4, which says 2 to 8 buckets; four here).
#include "choice/policies/spread_policy.hpp"

namespace ramp {

PolicyKind gpu_active_table() {
  return {"gpu-active", "2-D table: token count x active experts (4)", Sight::kLoad, Role::kTrain,
          [](const PolicyOptions&) {
            return spread_policy({{&Spread::active, 4}});
          }};
}

}  // namespace ramp
