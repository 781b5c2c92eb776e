// SPDX-License-Identifier: Apache-2.0
// Token count x active experts x padding, quartiles each (Table 4).
#include "choice/policies/spread_policy.hpp"

namespace ramp {

PolicyKind gpu_3d_table() {
  return {"gpu-3d", "3-D table: token count x active experts x padding (quartiles)", Sight::kLoad,
          Role::kTrain, [](const PolicyOptions&) {
            return spread_policy({{&Spread::active, 4}, {&Spread::padding, 4}});
          }};
}

}  // namespace ramp
