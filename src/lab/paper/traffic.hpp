// SPDX-License-Identifier: Apache-2.0
// Traffic for the results that need no kernel: the imbalance tables, and the figures of batches.
#pragma once

#include <string>
#include <vector>

#include "lab/paper/request.hpp"
#include "problem/pass_counts.hpp"
#include "problem/placement_study.hpp"

namespace ramp {

// Median of the most loaded GPU over the mean, by placement, on the passes of a study.
struct StudiedLayout {
  std::string layout;
  std::vector<PlacementResult> placements;
  // Of passes of 128 tokens and more, or of 128 to 511; unknown where there is none.
  double large(const std::string& placement) const;
  double middle(const std::string& placement) const;
};

// The recorded trace replayed, each domain in a closed loop of its own.
std::vector<StudiedLayout> study_recorded(const std::string& trace,
                                          const std::vector<std::string>& layouts);

// A calibrated model's generated traffic, a few of its layers.
std::vector<StudiedLayout> study_generated(const std::string& model,
                                           const std::vector<std::string>& layouts,
                                           std::uint64_t seed);

// Of the passes that a file was measured on, train and test, of least_tokens and more.
double measured_imbalance(const MeasuredSpace& space, int least_tokens);

}  // namespace ramp
