// SPDX-License-Identifier: Apache-2.0
// The formula that the paper sets against its own (Section 4.2): built from the tile count alone
// and fitted by ordinary least squares, so large times weigh most and coefficients may be negative.
// The paper lists the tiles, the tiles per SM and their logarithm; for one configuration the second
// is the first in another unit, so two terms remain beside the constant.
#include <Eigen/Dense>
#include <cmath>

#include "base/error.hpp"
#include "choice/features.h"
#include "choice/fit.hpp"
#include "choice/policy.hpp"

namespace ramp {
namespace {

constexpr int kTerms = 3;
using Row = Eigen::Matrix<double, 1, kTerms>;

Row terms(const Grid& grid, std::span<const int> load) {
  const double tiles =
      std::max(1, features(grid, load.data(), static_cast<int>(load.size())).tiles);
  return {1, tiles, std::log(tiles)};
}

class TileFormula : public Policy {
 public:
  void learn(const Lesson& lesson) override {
    for (int c : lesson.learnable) {
      std::vector<int> timed;
      for (size_t l = 0; l < lesson.loads.size(); ++l)
        if (is_time(lesson.us[c][l])) timed.push_back(static_cast<int>(l));
      if (timed.size() < static_cast<size_t>(kMinObservations)) continue;
      Eigen::Matrix<double, Eigen::Dynamic, kTerms> a(timed.size(), kTerms);
      Eigen::VectorXd us(timed.size());
      for (size_t i = 0; i < timed.size(); ++i) {
        a.row(i) = terms(lesson.candidates[c].grid, lesson.loads[timed[i]]);
        us[i] = lesson.us[c][timed[i]];
      }
      // Loads that all have one tile count leave the split undetermined: the shortest solution.
      const Eigen::CompleteOrthogonalDecomposition<Eigen::MatrixXd> solver(a);
      const Eigen::Vector3f found = solver.solve(us).cast<float>();
      entries_.push_back({c, lesson.candidates[c].grid, {found[0], found[1], found[2]}});
    }
    if (entries_.empty())
      throw Error("training loads", fmt::format("{}", lesson.loads.size()),
                  fmt::format("{} or more timed loads a configuration", kMinObservations),
                  "profile more passes");
  }

  int choose(const Seen& seen) const override {
    int best = entries_[0].candidate;
    double best_us = INFINITY;
    for (const Entry& entry : entries_) {
      const Row row = terms(entry.grid, seen.load);
      double us = 0;
      for (int t = 0; t < kTerms; ++t) us += entry.theta[t] * row[t];
      if (us < best_us) best = entry.candidate, best_us = us;
    }
    return best;
  }

  std::size_t bytes() const override {
    return entries_.size() * (sizeof(Grid) + kTerms * sizeof(float));
  }

 private:
  struct Entry {
    int candidate = 0;
    Grid grid;
    float theta[kTerms] = {};
  };
  std::vector<Entry> entries_;
};

}  // namespace

PolicyKind tile_formula() {
  return {"tile-formula", "tile count and its logarithm, by ordinary least squares", Sight::kLoad,
          Role::kTrain, [](const PolicyOptions&) -> std::unique_ptr<Policy> {
            return std::make_unique<TileFormula>();
          }};
}

}  // namespace ramp
