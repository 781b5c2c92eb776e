// SPDX-License-Identifier: Apache-2.0
#include "runtime/prefill.hpp"

#include <algorithm>
#include <cmath>

namespace ramp {

double expected_active_share(int experts, double choices) {
  if (experts < 1 || choices <= 0) return 0;
  return 1 - std::pow(1 - 1.0 / experts, choices);
}

int default_prefill(double active_share, int deepest) {
  if (active_share > 0.85) return deepest;
  if (active_share > 0.5) return std::min(4, deepest);
  if (active_share > 0.2) return std::min(2, deepest);
  return 0;
}

}  // namespace ramp
