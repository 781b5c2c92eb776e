// SPDX-License-Identifier: Apache-2.0
// The geometry of an MoE layer (Section 2.1) and of one GPU's share of it.
#pragma once

#include "base/host_device.h"

namespace ramp {

// A whole layer, as the model has it.
struct MoeShape {
  int experts = 0;       // E, routed experts
  int top_k = 0;         // k, experts a token
  int hidden = 0;        // d
  int intermediate = 0;  // h, of one expert
};

// What one GPU holds under a layout: TPn cuts h, EPn gives it some of the experts.
struct LocalShape {
  int experts = 0;       // experts on this GPU
  int top_k = 0;         // of the whole layer: the ids that arrive have this many columns
  int hidden = 0;        // d
  int intermediate = 0;  // h on this GPU
};

// Weight bytes of one expert in FP8: gate, up and down.  The 128x128 scales add 4/16384 of it and
// are left out everywhere, as in the floor's definition.
RAMP_HD constexpr long long expert_bytes(int hidden, int intermediate) {
  return 3LL * hidden * intermediate;
}

// The limit beside every time (docs/measuring.md): us for `active` experts and `pairs` token-expert
// pairs on an H200.
RAMP_HD constexpr double floor_us(const LocalShape& s, int active, long long pairs) {
  const double stream = 1.3 + 1e-6 * active * expert_bytes(s.hidden, s.intermediate) / 4.58;
  const double math = 1e-9 * pairs * 6.0 * s.hidden * s.intermediate / 1.9;
  return active == 0 ? 0.0 : (stream > math ? stream : math);
}

}  // namespace ramp
