// SPDX-License-Identifier: Apache-2.0
#include "choice/cross_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "choice/features.h"
#include "choice/fit.hpp"
#include "choice/nnls.hpp"

namespace ramp {
namespace {

std::vector<double> counts(const Grid& grid, const LocalShape& shape, std::span<const int> load) {
  const double expert_mb =
      1e-6 * static_cast<double>(expert_bytes(shape.hidden, shape.intermediate));
  // Gate and up are two of the three matrices.
  const double part[] = {grid.phases > 1 ? expert_mb * 2 / 3 : expert_mb, expert_mb / 3};
  double active = 0, tokens = 0, reread = 0;
  for (const int n : load)
    if (n > 0) ++active, tokens += n, reread += row_tiles(n, grid.phase[0]) - 1;
  double waves = 0, stream = 0;
  for (int p = 0; p < grid.phases; ++p) {
    const Phase& phase = grid.phase[p];
    int rows = 0;
    for (const int n : load) rows += row_tiles(n, phase);
    if (rows == 0) continue;
    const int tiles = rows * phase.col_tiles;
    waves += ceil_div(tiles, phase.slots) * (part[p] / phase.col_tiles + kItemMb);
    stream += active * part[p] * std::max(1.0, static_cast<double>(phase.slots) / tiles);
  }
  std::vector<double> out = {1, waves, active * expert_mb, reread * expert_mb, stream};
  if (grid.phases == 1) out.push_back(1e-6 * tokens * shape.hidden * grid.phase[0].col_tiles);
  return out;
}

double squared_log(double a, double b) { return std::log(a / b) * std::log(a / b); }

// 1 of a layer of the same matrices, 0.46 where one side is twice as long, 0.12 four times.
double likeness(const LocalShape& a, const LocalShape& b) {
  const double far = squared_log(a.hidden, b.hidden) + squared_log(a.intermediate, b.intermediate);
  return 1 / ((1 + far) * (1 + far));
}

struct Observed {
  std::vector<double> a, b;
  std::size_t columns = 0;
};

// Every lesson that timed a configuration counts as much as it is like the layer, however many of
// its loads that was: campaigns time a configuration more often where it is fast.
void observe(const Lesson& lesson, const LocalShape& layer,
             std::map<std::string, Observed>& of_label) {
  std::vector<float> best(lesson.loads.size(), std::numeric_limits<float>::infinity());
  for (const auto& row : lesson.us)
    for (std::size_t l = 0; l < row.size(); ++l) best[l] = std::min(best[l], row[l]);
  const double like = likeness(lesson.shape, layer);
  for (std::size_t c = 0; c < lesson.candidates.size(); ++c) {
    const Candidate& candidate = lesson.candidates[c];
    const auto& row = lesson.us[c];
    const double share = like / static_cast<double>(std::count_if(row.begin(), row.end(), is_time));
    Observed& o = of_label[candidate.label];
    for (std::size_t l = 0; l < best.size(); ++l) {
      const double us = row[l];
      if (!std::isfinite(us)) continue;
      const std::vector<double> count = counts(candidate.grid, lesson.shape, lesson.loads[l]);
      if (o.columns == 0) o.columns = count.size();
      if (o.columns != count.size()) continue;  // another kernel's label
      const double root = std::sqrt(share * contender_weight(us, best[l], kCrossContending));
      for (const double x : count) o.a.push_back(x / us * root);
      o.b.push_back(root);
    }
  }
}

}  // namespace

void CrossModel::fit(std::span<const Lesson> lessons, const LocalShape& layer) {
  layer_ = layer;
  theta_.clear();
  std::map<std::string, Observed> of_label;
  for (const Lesson& lesson : lessons) observe(lesson, layer, of_label);
  for (auto& [label, o] : of_label) {
    if (o.b.size() <= o.columns) continue;  // one more than coefficients, as in fit.hpp
    const std::vector<double> x =
        solve_nnls({static_cast<int>(o.columns), std::move(o.a), std::move(o.b)}).x;
    theta_[label] = std::vector<float>(x.begin(), x.end());
  }
  if (theta_.empty())
    throw Error("measurements of other layers", fmt::format("{}", lessons.size()),
                "configurations that were timed on them",
                "name measurement files of other models, of the same kernels");
}

double CrossModel::predict_us(const Candidate& candidate, std::span<const int> load) const {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  const auto found = theta_.find(candidate.label);
  if (found == theta_.end()) return kUnknown;
  const std::vector<double> count = counts(candidate.grid, layer_, load);
  if (count.size() != found->second.size()) return kUnknown;
  double us = 0;
  for (std::size_t i = 0; i < count.size(); ++i) us += found->second[i] * count[i];
  return us;
}

std::size_t CrossModel::bytes() const {
  std::size_t bytes = 0;
  for (const auto& [label, theta] : theta_) bytes += sizeof(Grid) + theta.size() * sizeof(float);
  return bytes;
}

}  // namespace ramp
