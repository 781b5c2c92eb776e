// SPDX-License-Identifier: Apache-2.0
// Token count x coefficient of variation (Table 4, which says 2 to 8 buckets; four here).
#include "choice/policies/spread_policy.hpp"

namespace ramp {

PolicyKind gpu_variation_table() {
  return {"gpu-variation", "2-D table: token count x coefficient of variation (4)", Sight::kLoad,
          Role::kTrain, [](const PolicyOptions&) {
            return spread_policy({{&Spread::variation, 4}});
          }};
}

}  // namespace ramp
