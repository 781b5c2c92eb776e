// SPDX-License-Identifier: Apache-2.0
#include "choice/extended_model.hpp"

#include <algorithm>
#include <cmath>
#include <queue>

#include "base/error.hpp"
#include "choice/features.h"
#include "choice/fit.hpp"
#include "choice/nnls.hpp"

namespace ramp {
namespace {

// Experts whose weights are read by more than one row tile: the second read finds them in L2 or
// does not, which no other term can tell from a first tile of another expert.
double reread(const Grid& grid, std::span<const int> load) {
  return static_cast<double>(
      std::count_if(load.begin(), load.end(), [&](int n) { return n > grid.phase[0].rows; }));
}

// Rows that are added into the output; their bytes are proportional to it for one configuration.
double reduced(const Grid&, std::span<const int> load) {
  double rows = 0;
  for (int n : load) rows += n;
  return rows;
}

double ragged(const Grid& grid, std::span<const int> load) {
  return static_cast<double>(
      std::count_if(load.begin(), load.end(), [&](int n) { return n % grid.phase[0].rows != 0; }));
}

// Row tiles cost a fixed part, as much as kFixedRows of their rows would, and a part a row; the
// longest block's sum when tiles go to the first free slot in list order.  Unit: rows.
double makespan(const Grid& grid, std::span<const int> load) {
  constexpr double kFixedRows = 8;
  double longest = 0;
  for (int p = 0; p < grid.phases; ++p) {
    const Phase& phase = grid.phase[p];
    std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
    double last = 0;
    for (int n : load)
      for (; n > 0; n -= phase.rows)
        for (int q = 0; q < phase.col_tiles; ++q) {
          double at = 0;
          if (static_cast<int>(free_at.size()) >= phase.slots) at = free_at.top(), free_at.pop();
          at += kFixedRows + std::min(n, phase.rows);
          free_at.push(at);
          last = std::max(last, at);
        }
    longest += last;
  }
  return longest;
}

// What is fitted of one candidate: a row an observation, divided by its time, times the root of its
// weight.
struct Observed {
  std::vector<std::vector<double>> counts;
  std::vector<double> us, root;
};

std::vector<double> solve(const Observed& o, const std::vector<int>& rows,
                          std::span<const int> columns) {
  NnlsProblem problem{static_cast<int>(columns.size()), {}, {}};
  for (int i : rows) {
    for (int c : columns) problem.a.push_back(o.counts[i][c] / o.us[i] * o.root[i]);
    problem.b.push_back(o.root[i]);
  }
  return solve_nnls(problem).x;
}

double dot(const std::vector<double>& counts, const std::vector<double>& x,
           std::span<const int> columns) {
  double us = 0;
  for (size_t i = 0; i < columns.size(); ++i) us += counts[columns[i]] * x[i];
  return us;
}

struct TwoSums {
  std::vector<double> stream, sum;
  double error = INFINITY;
};

// The larger of two sums by turns: each observation goes to the side that is larger for it, each
// side is fitted on its own, until none changes sides.  Started from three cuts by predicted size,
// since a start decides where this ends.
TwoSums solve_two(const Observed& o, std::span<const int> stream, std::span<const int> sum) {
  std::vector<int> order(o.us.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  TwoSums best{std::vector<double>(stream.size(), 0), solve(o, order, sum)};
  std::sort(order.begin(), order.end(), [&](int a, int b) { return o.us[a] < o.us[b]; });
  for (int quarter : {1, 2, 3}) {
    const auto cut = order.begin() + order.size() * quarter / 4;
    std::vector<int> low(order.begin(), cut), high(cut, order.end());
    for (int turn = 0; turn < 12; ++turn) {
      if (low.size() < stream.size() + 1 || high.size() < sum.size() + 1) break;
      TwoSums now{solve(o, low, stream), solve(o, high, sum), 0};
      std::vector<int> next_low, next_high;
      for (int i : order) {
        const double a = dot(o.counts[i], now.stream, stream), b = dot(o.counts[i], now.sum, sum);
        const double off = (std::max(a, b) / o.us[i] - 1) * o.root[i];
        now.error += off * off;
        (a >= b ? next_low : next_high).push_back(i);
      }
      if (now.error < best.error) best = now;
      if (next_low == low) break;
      low = std::move(next_low), high = std::move(next_high);
    }
  }
  return best;
}

}  // namespace

const std::vector<ExtraTerm>& extra_terms() {
  static const std::vector<ExtraTerm> terms = {
      {"reread", "experts that more than one row tile reads", reread},
      {"reduced", "rows added into the output", reduced},
      {"ragged", "row tiles that are not full", ragged},
      {"makespan", "the longest block, tiles weighed by their rows", makespan},
      {"floor", "the larger of a weight stream and the sum, instead of their sum", nullptr},
  };
  return terms;
}

const std::vector<std::string>& default_terms() {
  static const std::vector<std::string> terms = {"reread"};
  return terms;
}

ExtendedModel::ExtendedModel(const std::vector<std::string>& terms) {
  std::vector<std::string> names;
  for (const ExtraTerm& term : extra_terms()) names.push_back(term.name);
  for (size_t i = 0; i < terms.size(); ++i) {
    const auto at = std::find(names.begin(), names.end(), terms[i]);
    if (at == names.end() || std::find(terms.begin(), terms.begin() + i, terms[i]) !=
                                 terms.begin() + static_cast<std::ptrdiff_t>(i))
      throw Error("terms", terms[i], fmt::format("{}, each once", fmt::join(names, ", ")),
                  "name terms that exist, separated by commas");
    const ExtraTerm& term = extra_terms()[at - names.begin()];
    if (term.count)
      terms_.push_back(&term);
    else
      floor_ = true;
  }
}

std::vector<double> ExtendedModel::counts(const Grid& grid, std::span<const int> load) const {
  const Features f = features(grid, load.data(), static_cast<int>(load.size()));
  std::vector<double> out = {1, static_cast<double>(f.waves), static_cast<double>(f.tiles),
                             static_cast<double>(f.active)};
  for (const ExtraTerm* term : terms_) out.push_back(term->count(grid, load));
  return out;
}

void ExtendedModel::fit(const Lesson& lesson, std::span<const int> candidates) {
  candidates_.clear();
  entries_.clear();
  std::vector<int> columns(4 + terms_.size());
  for (size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<int>(i);
  const std::vector<int> stream = {0, 3};  // a constant and the active experts
  for (int c : candidates) {
    const Grid& grid = lesson.candidates[c].grid;
    Observed o;
    std::vector<int> rows;
    for (size_t l = 0; l < lesson.loads.size(); ++l) {
      if (!is_time(lesson.us[c][l])) continue;
      float best = INFINITY;
      for (int rival : candidates) best = std::min(best, lesson.us[rival][l]);
      rows.push_back(static_cast<int>(rows.size()));
      o.counts.push_back(counts(grid, lesson.loads[l]));
      o.us.push_back(lesson.us[c][l]);
      o.root.push_back(std::sqrt(contender_weight(lesson.us[c][l], best)));
    }
    if (rows.size() <= columns.size()) continue;  // one more than coefficients, as in fit.hpp
    TwoSums found;
    if (floor_)
      found = solve_two(o, stream, columns);
    else
      found = {{0, 0}, solve(o, rows, columns), 0};
    candidates_.push_back(c);
    entries_.push_back({grid, std::vector<float>(found.sum.begin(), found.sum.end()),
                        static_cast<float>(found.stream[0]), static_cast<float>(found.stream[1])});
  }
  if (entries_.empty())
    throw Error("training loads", fmt::format("{}", lesson.loads.size()),
                fmt::format("{} or more timed loads a configuration", columns.size() + 1),
                "profile more passes");
}

double ExtendedModel::predict_us(std::size_t entry, std::span<const int> load) const {
  const Coefficients& c = entries_[entry];
  const std::vector<double> count = counts(c.grid, load);
  double us = 0;
  for (size_t i = 0; i < count.size(); ++i) us += c.sum[i] * count[i];
  return std::max(us, c.stream0 + c.stream1 * count[3]);
}

int ExtendedModel::cheapest(std::span<const int> load) const {
  size_t best = 0;
  double best_us = INFINITY;
  for (size_t i = 0; i < entries_.size(); ++i)
    if (const double us = predict_us(i, load); us < best_us) best = i, best_us = us;
  return candidates_[best];
}

std::size_t ExtendedModel::bytes() const {
  return entries_.size() * (sizeof(Grid) + (4 + terms_.size() + (floor_ ? 2 : 0)) * sizeof(float));
}

}  // namespace ramp
