// SPDX-License-Identifier: Apache-2.0
// Policies compared (Section 4.2, Tables 3, 5 and 9): every policy learns from what it may, chooses
// on the test passes, and is charged the time of each pass's slowest GPU.  Learning and picking use
// one half of the samples, the times come from the other, and both ways round are averaged.
//
//   gap      chosen / exhaustive search - 1, geometric mean over passes
//   gap_time the same, passes weighed by their time
//   speedup  of a policy over the baseline (vLLM's tuning), geometric mean over passes
//   regret   chosen / best on the same load - 1, mean over the GPUs of all passes
//
// A prediction never counts as a time: a pass where a policy picks a configuration that was not
// timed on that load is left out for that policy and counted as `untimed`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "choice/fit_quality.hpp"
#include "choice/policy.hpp"
#include "choice/statistics.hpp"

namespace ramp {

struct EvaluateOptions {
  std::vector<std::string> policies;  // names; empty: all that the file says something of
  PolicyOptions policy;
  std::string baseline{kVllmPolicy};
  int large_batch = kLargeBatch;  // tokens
  int resamples = 2000;           // of the bootstrap
  std::uint64_t seed = 1;
  // Another layout of the same kernels: policies learn from its passes and are scored on these,
  // candidates being the same by label (a table moved to another EP degree, Section 4.2).
  const MeasuredSpace* learn_from = nullptr;
  // Other models, for the policies of transfer_policy_kinds().
  std::vector<const MeasuredSpace*> others;
};

// The slowest GPU of each scored pass, us, a vector a direction; infinity where a pick was not
// timed.
struct PassTimes {
  std::vector<float> us[2];
};

// Over some of the passes; NaN where there are none.
struct Comparison {
  int passes = 0;
  double gap = 0, gap_time = 0;
  double speedup = 0;
  Interval gap_interval, interval;  // of the gap and of the speedup, 95 %, over passes
};

struct PolicyScore {
  std::string name, summary;
  Sight sees = Sight::kNothing;
  std::size_t bytes = 0;    // what it holds at run time (Policy::bytes)
  std::string unavailable;  // why it could not learn; then the rest is empty
  Comparison all, large;    // large: passes of large_batch tokens or more
  double regret = 0;
  int untimed = 0;
  PassTimes times;
};

struct Evaluation {
  std::vector<PolicyScore> scores;
  std::string baseline;
  int large_batch = 0;
  int train_passes = 0, uniform_passes = 0, test_passes = 0;
  int unscored_passes = 0;  // test passes with work for which not even exhaustive search has a time
  Coverage coverage;        // timed_once > 0: exhaustive search is flattered there
  std::vector<int> tokens;  // of the scored passes, in the order of every PassTimes
};

// Throws Error where there is no held-out pass to score on, or a policy's name is unknown.
Evaluation evaluate(const MeasuredSpace& space, const EvaluateOptions& options = {});

// log(slow / fast) of each pass of least_tokens tokens or more that both have a time for, mean of
// the two ways round: what every gap and speedup is the mean of.
std::vector<double> log_ratios(const std::vector<int>& tokens, const PassTimes& slow,
                               const PassTimes& fast, int least_tokens);

// The row of a name; throws Error when it was not evaluated.
const PolicyScore& score_of(const Evaluation& evaluation, std::string_view name);

}  // namespace ramp
