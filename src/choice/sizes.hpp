// SPDX-License-Identifier: Apache-2.0
// Ranges of pass sizes.  Which configuration is fastest depends on the size before all else, so a
// campaign covers every range before it fills any (lab/campaign_plan.hpp), a plan answers for every
// range (choice/menu.hpp), and whoever reads one is told what each range rests on.
#pragma once

#include <string>
#include <vector>

#include "choice/measured.hpp"

namespace ramp {

// Powers of four: inside one the fastest configurations are much the same.
inline constexpr int kSizeLimits[] = {8, 32, 128, 512, 2048};
inline constexpr int kSizeRanges = 6;

constexpr int size_range(int tokens) {
  int range = 0;
  while (range + 1 < kSizeRanges && tokens > kSizeLimits[range]) ++range;
  return range;
}

std::string size_range_text(int range);  // "9-32", "above 2048"

// What is known of the training passes of one range.
struct SizeCoverage {
  int range = 0;
  int passes = 0;           // of training
  int least = 0, most = 0;  // tokens of those with a load below
  int loads = 0;            // of these passes, that kLeastRivals configurations were timed on
  int all_loads = 0;        // of these passes
  long long pairs = 0;      // configuration x load, timed
  long long all_pairs = 0;  // of all_loads
  bool is_uniform = false;  // no training pass has a load: counted are uniform draws
  bool is_thin() const;
};

// A load says which configuration is fastest only where several were timed on it.
inline constexpr int kLeastRivals = 3;
// Fewer timed loads than this, of more that there are, and a range's menu rests on little.
inline constexpr int kThinLoads = 4;

// Ascending; ranges without any pass of training or uniform draws are left out.
std::vector<SizeCoverage> coverage_by_size(const MeasuredSpace& space);

// "1-8: 24 of 30 loads, 310 pairs; 9-32: ...".
std::string coverage_text(const std::vector<SizeCoverage>& sizes);

// What a plan's user must know: which ranges are thin, or empty where none is.
std::string thin_warning(const MeasuredSpace& space);

// A plan keeps both beside what it says of how it was measured, in one text: older readers print
// it, newer ones take it apart.
struct HowMeasured {
  std::string how, timed, thin;  // empty where the text does not say
};
std::string text_of(const HowMeasured& how);
HowMeasured parse_how(const std::string& text);

}  // namespace ramp
