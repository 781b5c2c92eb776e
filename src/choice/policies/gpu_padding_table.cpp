// SPDX-License-Identifier: Apache-2.0
// Token count x padding: the best table of Table 4.
#include "choice/policies/spread_policy.hpp"

namespace ramp {

PolicyKind gpu_padding_table() {
  return {"gpu-padding", "2-D table: token count x padding (8 buckets)", Sight::kLoad, Role::kTrain,
          [](const PolicyOptions&) {
            return spread_policy({{&Spread::padding, 8}});
          }};
}

}  // namespace ramp
