// SPDX-License-Identifier: Apache-2.0
#include "choice/times.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/statistics.hpp"

namespace ramp {
namespace {

constexpr float kUntimed = std::numeric_limits<float>::infinity();

float median_of(const std::vector<float>& samples, Half half) {
  if (samples.empty()) return kUntimed;
  if (samples.size() == 1) return samples[0];
  std::vector<float> taken;
  const size_t first = half == Half::kSecond ? 1 : 0, step = half == Half::kBoth ? 1 : 2;
  for (size_t i = first; i < samples.size(); i += step) taken.push_back(samples[i]);
  return median(std::move(taken));
}

}  // namespace

bool is_time(float us) { return std::isfinite(us); }

TimeTable median_times(const MeasuredSpace& space, Half half) {
  TimeTable us(space.candidates.size(), std::vector<float>(space.loads.size(), kUntimed));
  for (size_t c = 0; c < us.size(); ++c)
    for (size_t l = 0; l < us[c].size(); ++l) us[c][l] = median_of(space.samples[c][l], half);
  return us;
}

float pass_us(const TimeTable& us, const std::vector<int>& load_of_gpu,
              const std::vector<int>& choice) {
  float slowest = 0;
  for (size_t g = 0; g < load_of_gpu.size(); ++g)
    if (load_of_gpu[g] >= 0) slowest = std::max(slowest, us[choice[g]][load_of_gpu[g]]);
  return slowest;
}

float pass_us(const TimeTable& us, const std::vector<int>& load_of_gpu, int candidate) {
  float slowest = 0;
  for (int load : load_of_gpu)
    if (load >= 0) slowest = std::max(slowest, us[candidate][load]);
  return slowest;
}

Coverage coverage(const MeasuredSpace& space) {
  Coverage found;
  for (const auto& row : space.samples)
    for (const auto& samples : row) {
      ++found.pairs;
      found.timed += !samples.empty();
      found.timed_once += samples.size() == 1;
    }
  return found;
}

}  // namespace ramp
