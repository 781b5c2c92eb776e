// SPDX-License-Identifier: Apache-2.0
#include "choice/sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "choice/times.hpp"

namespace ramp {
namespace {

constexpr const char* kTimed = "; timed by pass size: ";
constexpr const char* kThin = "; thin: ";

// Cuts the text at a mark and returns what stands behind it.
std::string cut(std::string& text, const std::string& mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string::npos) return "";
  const std::string behind = text.substr(at + mark.size());
  text.resize(at);
  return behind;
}

SizeCoverage cover(const MeasuredSpace& space, const std::vector<int>& timed_on, int range,
                   Role role) {
  SizeCoverage found{.range = range};
  const int rivals = std::min(kLeastRivals, static_cast<int>(space.candidates.size()));
  std::set<int> loads;
  for (const MeasuredPass& pass : space.passes) {
    if (pass.role != role || size_range(pass.tokens) != range) continue;
    ++found.passes;
    bool has_load = false;
    for (int load : pass.load_of_gpu) {
      if (load < 0) continue;
      loads.insert(load);
      has_load = has_load || timed_on[load] >= rivals;
    }
    if (!has_load) continue;
    found.least = found.least ? std::min(found.least, pass.tokens) : pass.tokens;
    found.most = std::max(found.most, pass.tokens);
  }
  found.all_loads = static_cast<int>(loads.size());
  found.all_pairs = static_cast<long long>(loads.size() * space.candidates.size());
  for (int load : loads) {
    found.pairs += timed_on[load];
    found.loads += timed_on[load] >= rivals;
  }
  return found;
}

}  // namespace

std::string size_range_text(int range) {
  if (range + 1 == kSizeRanges) return fmt::format("above {}", kSizeLimits[range - 1]);
  return fmt::format("{}-{}", range ? kSizeLimits[range - 1] + 1 : 1, kSizeLimits[range]);
}

bool SizeCoverage::is_thin() const { return loads < std::min(kThinLoads, all_loads); }

std::vector<SizeCoverage> coverage_by_size(const MeasuredSpace& space) {
  std::vector<int> timed_on(space.loads.size(), 0);
  for (const auto& row : space.samples)
    for (size_t l = 0; l < row.size(); ++l) timed_on[l] += !row[l].empty();
  std::vector<SizeCoverage> sizes;
  for (int range = 0; range < kSizeRanges; ++range) {
    SizeCoverage found = cover(space, timed_on, range, Role::kTrain);
    if (found.loads == 0)
      if (const SizeCoverage drawn = cover(space, timed_on, range, Role::kUniform);
          drawn.loads > 0 || found.passes == 0) {
        const int passes = found.passes;
        found = drawn;
        found.passes = passes;
        found.is_uniform = true;
      }
    if (found.all_loads > 0) sizes.push_back(found);
  }
  return sizes;
}

std::string coverage_text(const std::vector<SizeCoverage>& sizes) {
  std::string text;
  for (const SizeCoverage& s : sizes)
    text += fmt::format("{}{}: {} of {} loads, {} pairs{}", text.empty() ? "" : "; ",
                        size_range_text(s.range), s.loads, s.all_loads, s.pairs,
                        s.is_uniform ? " (uniform draws)" : "");
  return text;
}

std::string thin_warning(const MeasuredSpace& space) {
  std::string thin;
  for (const SizeCoverage& s : coverage_by_size(space))
    if (s.is_thin())
      thin += fmt::format("; passes of {} tokens rest on {} load{}", size_range_text(s.range),
                          s.loads, s.loads == 1 ? "" : "s");
  if (thin.empty()) return "";
  const Coverage all = coverage(space);
  return fmt::format("{:.2g} % of the pairs timed{}",
                     100.0 * static_cast<double>(all.timed) /
                         static_cast<double>(std::max<long long>(all.pairs, 1)),
                     thin);
}

std::string text_of(const HowMeasured& how) {
  return how.how + (how.timed.empty() ? "" : kTimed + how.timed) +
         (how.thin.empty() ? "" : kThin + how.thin);
}

HowMeasured parse_how(const std::string& text) {
  HowMeasured how{text, "", ""};
  how.thin = cut(how.how, kThin);
  how.timed = cut(how.how, kTimed);
  return how;
}

}  // namespace ramp
