// SPDX-License-Identifier: Apache-2.0
// The few statistics of Section 4 beside the medians (base/statistics.hpp): rank correlation,
// geometric means, the bootstrap interval.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ramp {

// Ranks from 1; equal values share the mean of their ranks.
std::vector<double> ranks(std::span<const double> values);

// Spearman's rank correlation.  NaN when it is undefined: fewer than two points, or one side all
// equal.
double spearman(std::span<const double> a, std::span<const double> b);

double mean(std::span<const double> values);  // NaN of nothing

// exp of the mean; the logs of ratios go in, so that a doubling and a halving cancel.  NaN of
// nothing.
double exp_mean(std::span<const double> logs);

struct Interval {
  double low = 0, high = 0;
};

// 95 % percentile bootstrap of exp_mean: passes are drawn with replacement.  The same seed gives
// the same interval on every machine.
Interval bootstrap_exp_mean(std::span<const double> logs, int resamples, std::uint64_t seed);

// The same of a mean of means: every layout counts alike, and passes are drawn inside their layout.
// Empty groups don't count.
double exp_mean_of_groups(std::span<const std::vector<double>> groups);
Interval bootstrap_exp_mean_of_groups(std::span<const std::vector<double>> groups, int resamples,
                                      std::uint64_t seed);

// 95 % percentile bootstrap of the plain mean.
Interval bootstrap_mean(std::span<const double> values, int resamples, std::uint64_t seed);

}  // namespace ramp
