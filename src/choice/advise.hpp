// SPDX-License-Identifier: Apache-2.0
// Is choosing worth it?  What one policy saves over another on held-out passes, by range of pass
// size, with its uncertainty and a verdict.  Works on what evaluate() measured; predicts nothing.
#pragma once

#include <string_view>
#include <vector>

#include "choice/evaluate.hpp"

namespace ramp {

enum class GainVerdict { kWorthIt, kHoldsZero, kTooSmall, kSlower, kTooFewPasses };

inline constexpr double kWorthwhileGain = 0.01;
inline constexpr int kFewestPasses = 5;  // below, no verdict

// "worth it", "not worth it here: ...", "too few passes to say".
std::string_view verdict_text(GainVerdict verdict);

// Over the passes of least to most tokens for which present, choice and exhaustive search all have
// a time.
struct Advice {
  int least = 0, most = 0;
  int passes = 0;
  int left_out = 0;  // of the range, but one of the three has no time
  // Slowest GPU of a pass, us, mean over passes and over the two ways round; NaN of no pass.
  double present_us = 0, choice_us = 0, best_us = 0;
  double saved_us = 0;  // present_us - choice_us
  Interval saved_interval;
  double gain = 0;  // share of the present's time, geometric mean over passes: each counts alike
  Interval gain_interval;  // 95 %, over passes
  GainVerdict verdict = GainVerdict::kTooFewPasses;
};

struct Advised {
  std::vector<Advice> ranges;  // 1, 2-8, 9-32, 33-127, 128-511, 512+ tokens; those that have passes
  Advice all;
};

// The evaluation holds present, choice and kOraclePolicy, all of them available.
Advised advise(const Evaluation& evaluation, std::string_view present, std::string_view choice,
               int resamples, std::uint64_t seed);

}  // namespace ramp
