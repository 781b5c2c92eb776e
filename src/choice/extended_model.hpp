// SPDX-License-Identifier: Apache-2.0
// The cost model with terms that Eq. 3 leaves out (Section 6 calls them open), to find out on
// measurements which of them earn their place.  Every term counts something of a load under a grid
// and gets a non-negative coefficient a configuration, fitted with the weights of fit.hpp.
//
// One structural change stands among them: `floor` makes the prediction the larger of two sums,
// stream0 + stream1 A (a kernel that only reads weights) and the rest, where Eq. 3 adds them.
//
// The exchange of a split item (a cluster's partial sums) is no term of its own: for one
// configuration its bytes are proportional to its tiles and its rows, which `tile` and `reduced`
// already count.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "choice/lesson.hpp"

namespace ramp {

struct ExtraTerm {
  std::string name;
  std::string counts;                                                 // one line
  double (*count)(const Grid&, std::span<const int> load) = nullptr;  // null: `floor`
};

// Those that can be asked for: reread, reduced, ragged, makespan, floor.
const std::vector<ExtraTerm>& extra_terms();

// Those that won on held-out loads (docs/policies.md).
const std::vector<std::string>& default_terms();

class ExtendedModel {
 public:
  // Throws Error naming the terms that exist, for an unknown name or one that comes twice.
  explicit ExtendedModel(const std::vector<std::string>& terms);

  // Candidates with too few timed loads are left out; throws Error when none is left.
  void fit(const Lesson& lesson, std::span<const int> candidates);

  // us of a candidate that was fitted; the index is that of `fitted`.
  double predict_us(std::size_t entry, std::span<const int> load) const;
  const std::vector<int>& fitted() const { return candidates_; }
  int cheapest(std::span<const int> load) const;  // a candidate; a tie goes to the first
  std::size_t bytes() const;

 private:
  struct Coefficients {
    Grid grid;
    std::vector<float> sum;          // Eq. 3's four, then one a term
    float stream0 = 0, stream1 = 0;  // 0 without `floor`
  };
  std::vector<double> counts(const Grid& grid, std::span<const int> load) const;

  std::vector<const ExtraTerm*> terms_;  // `floor` left out
  bool floor_ = false;
  std::vector<int> candidates_;
  std::vector<Coefficients> entries_;
};

}  // namespace ramp
