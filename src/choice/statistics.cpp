// SPDX-License-Identifier: Apache-2.0
#include "choice/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/statistics.hpp"
#include "problem/random.hpp"

namespace ramp {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The mean over groups of the mean inside a group, its items drawn with replacement.
Interval resampled(std::vector<std::span<const double>> groups, int resamples, std::uint64_t seed) {
  std::erase_if(groups, [](const auto& group) { return group.empty(); });
  if (groups.empty() || resamples < 1) return {kNaN, kNaN};
  Random random(seed);
  std::vector<double> means(resamples);
  for (double& mean : means) {
    double of_groups = 0;
    for (const auto& group : groups) {
      double sum = 0;
      for (size_t i = 0; i < group.size(); ++i) sum += group[random.below(group.size())];
      of_groups += sum / group.size();
    }
    mean = of_groups / groups.size();
  }
  std::sort(means.begin(), means.end());
  return {quantile_of_sorted<double>(means, 0.025), quantile_of_sorted<double>(means, 0.975)};
}

Interval exp_of(const Interval& logs) { return {std::exp(logs.low), std::exp(logs.high)}; }

}  // namespace

std::vector<double> ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return values[i] < values[j]; });
  std::vector<double> rank(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double shared = (begin + end + 1) / 2.0;  // mean of begin+1 .. end
    for (size_t i = begin; i < end; ++i) rank[order[i]] = shared;
    begin = end;
  }
  return rank;
}

double spearman(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size() || a.size() < 2) return kNaN;
  const std::vector<double> ra = ranks(a), rb = ranks(b);
  const double mean = (a.size() + 1) / 2.0;
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (ra[i] - mean) * (rb[i] - mean);
    aa += (ra[i] - mean) * (ra[i] - mean);
    bb += (rb[i] - mean) * (rb[i] - mean);
  }
  return aa == 0 || bb == 0 ? kNaN : ab / std::sqrt(aa * bb);
}

double mean(std::span<const double> values) {
  if (values.empty()) return kNaN;
  return std::accumulate(values.begin(), values.end(), 0.0) / values.size();
}

double exp_mean(std::span<const double> logs) { return std::exp(mean(logs)); }

double exp_mean_of_groups(std::span<const std::vector<double>> groups) {
  std::vector<double> means;
  for (const auto& group : groups)
    if (!group.empty()) means.push_back(mean(group));
  return exp_mean(means);
}

Interval bootstrap_exp_mean(std::span<const double> logs, int resamples, std::uint64_t seed) {
  return exp_of(resampled({logs}, resamples, seed));
}

Interval bootstrap_mean(std::span<const double> values, int resamples, std::uint64_t seed) {
  return resampled({values}, resamples, seed);
}

Interval bootstrap_exp_mean_of_groups(std::span<const std::vector<double>> groups, int resamples,
                                      std::uint64_t seed) {
  return exp_of(resampled({groups.begin(), groups.end()}, resamples, seed));
}

}  // namespace ramp
