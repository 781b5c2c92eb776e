// SPDX-License-Identifier: Apache-2.0
// Token count x largest load over mean (Table 4, which says 2 to 8 buckets; four here).
#include "choice/policies/spread_policy.hpp"

namespace ramp {

PolicyKind gpu_peak_table() {
  return {"gpu-peak", "2-D table: token count x largest load over mean (4)", Sight::kLoad,
          Role::kTrain, [](const PolicyOptions&) {
            return spread_policy({{&Spread::peak, 4}});
          }};
}

}  // namespace ramp
