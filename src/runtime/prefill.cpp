// SPDX-License-Identifier: Apache-2.0
#include "runtime/prefill.hpp"

#include <algorithm>
#include <cmath>

#include "choice/measured.hpp"

namespace ramp {

double expected_active_share(int experts, double choices) {
  if (experts < 1 || choices <= 0) return 0;
  return 1 - std::pow(1 - 1.0 / experts, choices);
}

int default_prefill(double active_share, int deepest) {
  if (active_share > kAheadShare) return std::min(6, deepest);
  if (active_share > 0.15) return std::min(2, deepest);
  return 0;
}

int down_prefill(int prefill, double rows_of_expert, int rows_of_tile, bool all_owned) {
  return all_owned && rows_of_expert <= rows_of_tile ? prefill : 0;
}

int prefill_pace_ns(int blocks, double stream_tbps) {
  return static_cast<int>(std::ceil(blocks * kFfnUnitBytes / (stream_tbps * 1e3)));
}

int prefill_pace_ns(const FfnConfig& config, int intermediate, int owned_experts,
                    double stream_tbps) {
  return prefill_pace_ns(owned_experts * ffn_slices(config, intermediate) * config.split,
                         stream_tbps);
}

}  // namespace ramp
