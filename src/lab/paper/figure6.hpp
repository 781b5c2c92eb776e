// SPDX-License-Identifier: Apache-2.0
// The panels of Figure 6 for any measurements: the terms of one configuration, predicted against
// measured, and tile heights on two GPUs of one pass where one was timed with several.
#pragma once

#include <vector>

#include "choice/measured.hpp"
#include "lab/paper/plot.hpp"

namespace ramp {

// On held-out loads; throws Error where none was timed.
std::vector<Panel> cost_model_panels(const MeasuredSpace& space, int large_batch);

}  // namespace ramp
