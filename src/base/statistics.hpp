// SPDX-License-Identifier: Apache-2.0
// The order statistics that every room needs: one definition of a median, a quantile and a spread.
// Samples are float or double; of nothing, everything here is NaN.
#pragma once

#include <algorithm>
#include <concepts>
#include <limits>
#include <span>
#include <vector>

namespace ramp {

// Of an even number, the mean of the two in the middle.
template <std::floating_point Real>
Real median(std::vector<Real> values) {
  if (values.empty()) return std::numeric_limits<Real>::quiet_NaN();
  const auto mid = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), mid, values.end());
  if (values.size() % 2) return *mid;
  return (*std::max_element(values.begin(), mid) + *mid) / 2;
}

// Of ascending values, q = 0 .. 1, linear between neighbours (NumPy's default).
template <std::floating_point Real>
double quantile_of_sorted(std::span<const Real> sorted, double q) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] +
         (at - static_cast<double>(low)) * (static_cast<double>(sorted[high]) - sorted[low]);
}

template <std::floating_point Real>
double quantile(std::vector<Real> values, double q) {
  std::sort(values.begin(), values.end());
  return quantile_of_sorted<Real>(values, q);
}

// Interquartile range over median: says how well the median is known, and does not grow with the
// number of samples as the full range does.
template <std::floating_point Real>
double relative_spread(std::vector<Real> values) {
  std::sort(values.begin(), values.end());
  const std::span<const Real> sorted = values;
  return (quantile_of_sorted(sorted, 0.75) - quantile_of_sorted(sorted, 0.25)) /
         quantile_of_sorted(sorted, 0.5);
}

}  // namespace ramp
