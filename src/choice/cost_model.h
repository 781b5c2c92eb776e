// SPDX-License-Identifier: Apache-2.0
// Eq. 3: the predicted time of one configuration, and the argmin over a menu.  fmaf is spelled out
// so that host and device round alike and a near-tie falls the same way on both.
#pragma once

#if !defined(__CUDACC_RTC__)
#include <cmath>
#endif

#include "choice/features.h"

namespace ramp {

// theta_c, in us: fixed cost, a wave, a tile, an active expert.  Non-negative by construction of
// the fit.
struct Theta {
  float fixed = 0;
  float wave = 0;
  float tile = 0;
  float expert = 0;
};

RAMP_HD float predict_us(const Theta& t, const Features& f) {
  return fmaf(t.expert, static_cast<float>(f.active),
              fmaf(t.tile, static_cast<float>(f.tiles),
                   fmaf(t.wave, static_cast<float>(f.waves), t.fixed)));
}

// What the choice knows of a menu's entry.
struct MenuEntry {
  Grid grid;
  Theta theta;
};

// Ties go to the lower index.
RAMP_HD int cheapest(const float* us, int entries) {
  int best = 0;
  for (int i = 1; i < entries; ++i)
    if (us[i] < us[best]) best = i;
  return best;
}

}  // namespace ramp
