// SPDX-License-Identifier: Apache-2.0
#include "choice/advise.hpp"

#include <cmath>
#include <limits>

namespace ramp {
namespace {

constexpr int kAnySize = std::numeric_limits<int>::max();
constexpr int kRanges[][2] = {{1, 1}, {2, 8}, {9, 32}, {33, 127}, {128, 511}, {512, kAnySize}};

// us of a pass, mean of the two ways round; infinity where one has none.
double pass_us(const PassTimes& times, size_t pass) {
  return (static_cast<double>(times.us[0][pass]) + times.us[1][pass]) / 2;
}

GainVerdict verdict_of(const Advice& a) {
  if (a.passes < kFewestPasses) return GainVerdict::kTooFewPasses;
  if (a.gain_interval.high < 0) return GainVerdict::kSlower;
  if (a.gain < kWorthwhileGain) return GainVerdict::kTooSmall;
  return a.gain_interval.low > 0 ? GainVerdict::kWorthIt : GainVerdict::kHoldsZero;
}

}  // namespace

std::string_view verdict_text(GainVerdict verdict) {
  switch (verdict) {
    case GainVerdict::kWorthIt:
      return "worth it";
    case GainVerdict::kHoldsZero:
      return "not worth it here: the interval holds 0";
    case GainVerdict::kTooSmall:
      return "not worth it here: less than 1 %";
    case GainVerdict::kSlower:
      return "not worth it here: slower";
    case GainVerdict::kTooFewPasses:
      return "too few passes to say";
  }
  return "";
}

Advised advise(const Evaluation& evaluation, std::string_view present, std::string_view choice,
               int resamples, std::uint64_t seed) {
  const PassTimes& from = score_of(evaluation, present).times;
  const PassTimes& to = score_of(evaluation, choice).times;
  const PassTimes& bound = score_of(evaluation, kOraclePolicy).times;
  const auto of_range = [&](int least, int most) {
    Advice out;
    out.least = least, out.most = most;
    std::vector<int> tokens;
    PassTimes kept_from, kept_to;
    std::vector<double> present_us, choice_us, best_us, saved_us;
    for (size_t p = 0; p < evaluation.tokens.size(); ++p) {
      if (evaluation.tokens[p] < least || evaluation.tokens[p] > most) continue;
      const double was = pass_us(from, p), is = pass_us(to, p), best = pass_us(bound, p);
      if (!std::isfinite(was + is + best)) {
        ++out.left_out;
        continue;
      }
      tokens.push_back(evaluation.tokens[p]);
      for (int d = 0; d < 2; ++d)
        kept_from.us[d].push_back(from.us[d][p]), kept_to.us[d].push_back(to.us[d][p]);
      present_us.push_back(was), choice_us.push_back(is), best_us.push_back(best);
      saved_us.push_back(was - is);
    }
    out.passes = static_cast<int>(tokens.size());
    out.present_us = mean(present_us);
    out.choice_us = mean(choice_us);
    out.best_us = mean(best_us);
    out.saved_us = mean(saved_us);
    out.saved_interval = bootstrap_mean(saved_us, resamples, seed);
    const std::vector<double> logs = log_ratios(tokens, kept_from, kept_to, 0);
    const Interval speedup = bootstrap_exp_mean(logs, resamples, seed);
    out.gain = 1 - 1 / exp_mean(logs);
    out.gain_interval = {1 - 1 / speedup.low, 1 - 1 / speedup.high};
    out.verdict = verdict_of(out);
    return out;
  };
  Advised out;
  for (const auto& [least, most] : kRanges) {
    Advice range = of_range(least, most);
    if (range.passes + range.left_out > 0) out.ranges.push_back(range);
  }
  out.all = of_range(0, kAnySize);
  return out;
}

}  // namespace ramp
