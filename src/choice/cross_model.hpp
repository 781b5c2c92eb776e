// SPDX-License-Identifier: Apache-2.0
// One model across layers (Section 4.2: "with the layer's dimensions added to its terms"): theta of
// a configuration, fitted on the measurements of other models, predicts a layer that was never
// measured.  Eq. 3 counts waves, tiles and experts; here each count comes with the bytes of weights
// that it stands for, so that a coefficient is a time a megabyte and not a time on one layer.
//
//   1                    launch, first latency
//   W_p (w_p + f)        summed over phases: a slot's item reads w_p megabytes (an expert's weights
//                        of the phase over its column tiles); f is what an item costs beside them
//   A w                  the active experts' weights, w megabytes each
//   R w                  the same weights again for every row tile of an expert but its first
//   A w_p max(1, S_p / T_p)  the same stream through the slots that have an item: an SM draws its
//                        share of the memory's rate and no more, so fewer items than slots are slow
//   n d q                one phase only: each of q slices of h adds n rows of d into the output
//
// Theta is fitted for one layer: other layers count by their likeness to it.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "choice/lesson.hpp"

namespace ramp {

class CrossModel {
 public:
  // A lesson a layer and role; configurations are the same by label.  Those with too few timed
  // loads over all layers are left out; throws Error when none is left.
  void fit(std::span<const Lesson> lessons, const LocalShape& layer);

  // On that layer; infinity for a configuration that no lesson knows.
  double predict_us(const Candidate& candidate, std::span<const int> load) const;
  bool knows(const Candidate& candidate) const { return theta_.contains(candidate.label); }
  int fitted() const { return static_cast<int>(theta_.size()); }
  std::size_t bytes() const;

 private:
  LocalShape layer_;
  std::map<std::string, std::vector<float>> theta_;  // by label
};

// What an item costs beside its weights, as the megabytes that a block would load meanwhile: 1.3 us
// of activation, meeting and output (docs/kernels.md) at a copy engine's 76 GB/s.
inline constexpr double kItemMb = 0.1;

// Weighs a load by how far a configuration is from the fastest, as fit.hpp does, but more gently:
// where it competes on a layer that was not measured is not known.  Twice as slow counts a quarter.
inline constexpr double kCrossContending = 1.0;

}  // namespace ramp
