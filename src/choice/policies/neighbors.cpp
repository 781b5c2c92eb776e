// SPDX-License-Identifier: Apache-2.0
// Eight nearest neighbors (Table 4): the candidate that was fastest on the training loads that
// resemble this one in token count, active experts, padding and largest load over mean.
#include <algorithm>
#include <array>
#include <cmath>

#include "choice/batch_table.hpp"
#include "choice/gpu_table.hpp"
#include "choice/policy.hpp"

namespace ramp {
namespace {

constexpr int kNeighbors = 8;
constexpr int kMeasures = 4;
using Point = std::array<float, kMeasures>;

// The count in octaves: 8 and 16 tokens differ as 1,000 and 2,000 do.
Point point_of(std::span<const int> load, int rows) {
  const Spread s = spread_of(load, rows);
  return {static_cast<float>(std::log2(1 + s.pairs)), static_cast<float>(s.active),
          static_cast<float>(s.padding), static_cast<float>(s.peak)};
}

class Neighbors : public Policy {
 public:
  void learn(const Lesson& lesson) override {
    rows_ = padding_rows(lesson);
    candidates_ = lesson.learnable;
    for (int l : timed_loads(lesson)) {
      points_.push_back(point_of(lesson.loads[l], rows_));
      std::vector<float>& us = us_.emplace_back();
      for (int c : candidates_) us.push_back(lesson.us[c][l]);
    }
    // Measures count alike: each is divided by its own spread over the training loads.
    for (int m = 0; m < kMeasures; ++m) {
      double sum = 0, squares = 0;
      for (const Point& p : points_) sum += p[m], squares += static_cast<double>(p[m]) * p[m];
      const double mean = sum / points_.size(), variance = squares / points_.size() - mean * mean;
      scale_[m] = variance > 0 ? static_cast<float>(1 / std::sqrt(variance)) : 0;
    }
  }

  int choose(const Seen& seen) const override {
    const Point at = point_of(seen.load, rows_);
    std::vector<std::pair<float, int>> order;  // equally far ones in the order of the lesson
    for (size_t i = 0; i < points_.size(); ++i) {
      float distance = 0;
      for (int m = 0; m < kMeasures; ++m) {
        const float apart = (points_[i][m] - at[m]) * scale_[m];
        distance += apart * apart;
      }
      order.emplace_back(distance, static_cast<int>(i));
    }
    const int near = std::min<int>(kNeighbors, static_cast<int>(order.size()));
    std::partial_sort(order.begin(), order.begin() + near, order.end());
    std::vector<int> columns(candidates_.size());
    for (size_t c = 0; c < columns.size(); ++c) columns[c] = static_cast<int>(c);
    return candidates_[best_candidate(columns, near,
                                      [&](int c, int i) { return us_[order[i].second][c]; })];
  }

  std::size_t bytes() const override {
    return points_.size() * (sizeof(Point) + candidates_.size() * sizeof(float));
  }

 private:
  int rows_ = 1;
  std::vector<int> candidates_;
  std::vector<Point> points_;           // of the training loads
  std::vector<std::vector<float>> us_;  // [training load][candidates_]
  Point scale_{};
};

}  // namespace

PolicyKind neighbors() {
  return {"neighbors-8", "fastest on the 8 most similar training loads", Sight::kLoad, Role::kTrain,
          [](const PolicyOptions&) -> std::unique_ptr<Policy> {
            return std::make_unique<Neighbors>();
          }};
}

}  // namespace ramp
