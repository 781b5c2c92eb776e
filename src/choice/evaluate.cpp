// SPDX-License-Identifier: Apache-2.0
#include "choice/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace ramp {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct TestPass {
  int tokens = 0;
  std::vector<int> load_of_gpu;
};

// What a policy's choices took: infinity where a pick was not timed.
struct Run {
  std::string unavailable;
  std::size_t bytes = 0;
  PassTimes pass;
  std::vector<std::vector<float>> gpu[2];  // of each of a pass's GPUs
};

// The two ways round share what does not depend on the policy.
struct Direction {
  Lesson recorded, uniform;
  TimeTable pick_of_load;  // [load][candidate], the half that picks
  TimeTable score;         // [candidate][load], the half that scores
};

Direction make_direction(const MeasuredSpace& space, const EvaluateOptions& options, Half half) {
  const MeasuredSpace* learn_from = options.learn_from;
  const auto lesson = [&](Role role) {
    return learn_from ? lesson_for(make_lesson(*learn_from, role, half), space.candidates)
                      : make_lesson(space, role, half);
  };
  Direction d{
      lesson(Role::kTrain), lesson(Role::kUniform), {}, median_times(space, opposite(half))};
  d.recorded.others = recorded_lessons(options.others, half);
  const TimeTable pick = median_times(space, half);
  d.pick_of_load.assign(space.loads.size(), std::vector<float>(space.candidates.size()));
  for (size_t c = 0; c < pick.size(); ++c)
    for (size_t l = 0; l < pick[c].size(); ++l) d.pick_of_load[l][c] = pick[c][l];
  return d;
}

Run run_policy(const PolicyKind& kind, const MeasuredSpace& space,
               const std::vector<TestPass>& passes, const Direction (&directions)[2],
               const PolicyOptions& options) {
  Run run;
  for (int d = 0; d < 2; ++d) {
    const Direction& way = directions[d];
    const std::unique_ptr<Policy> policy = kind.make(options);
    try {
      policy->learn(kind.learns_from == Role::kUniform ? way.uniform : way.recorded);
    } catch (const Error& e) {
      run.unavailable = e.what();
      return run;
    }
    run.bytes = std::max(run.bytes, policy->bytes());
    for (const TestPass& pass : passes) {
      std::vector<float> gpu;
      for (int load : pass.load_of_gpu) {
        if (load < 0) {
          gpu.push_back(0);
          continue;
        }
        Seen seen{pass.tokens, space.loads[load], {}};
        if (kind.oracle()) seen.timed = way.pick_of_load[load];
        gpu.push_back(way.score[policy->choose(seen)][load]);
      }
      run.pass.us[d].push_back(*std::max_element(gpu.begin(), gpu.end()));
      run.gpu[d].push_back(std::move(gpu));
    }
  }
  return run;
}

bool timed(const PassTimes& times, size_t pass) {
  return is_time(times.us[0][pass]) && is_time(times.us[1][pass]);
}

Comparison compare(const Run& run, const Run& oracle, const Run& baseline,
                   const std::vector<int>& tokens, int least_tokens,
                   const EvaluateOptions& options) {
  Comparison out;
  const std::vector<double> gaps = log_ratios(tokens, run.pass, oracle.pass, least_tokens);
  double chosen = 0, best = 0;
  for (size_t p = 0; p < tokens.size(); ++p) {
    if (tokens[p] < least_tokens || !timed(run.pass, p) || !timed(oracle.pass, p)) continue;
    for (int d = 0; d < 2; ++d) chosen += run.pass.us[d][p], best += oracle.pass.us[d][p];
  }
  out.passes = static_cast<int>(gaps.size());
  out.gap = exp_mean(gaps) - 1;
  const Interval ratio = bootstrap_exp_mean(gaps, options.resamples, options.seed);
  out.gap_interval = {ratio.low - 1, ratio.high - 1};
  out.gap_time = out.passes ? chosen / best - 1 : kNaN;
  std::vector<double> speedups;
  if (baseline.unavailable.empty())
    speedups = log_ratios(tokens, baseline.pass, run.pass, least_tokens);
  out.speedup = exp_mean(speedups);
  out.interval = bootstrap_exp_mean(speedups, options.resamples, options.seed);
  return out;
}

double regret(const Run& run, const Run& oracle) {
  double sum = 0;
  long long loads = 0;
  for (int d = 0; d < 2; ++d)
    for (size_t p = 0; p < run.gpu[d].size(); ++p)
      for (size_t g = 0; g < run.gpu[d][p].size(); ++g) {
        const float us = run.gpu[d][p][g], best = oracle.gpu[d][p][g];
        if (!is_time(us) || !is_time(best) || best == 0) continue;
        sum += us / best - 1;
        ++loads;
      }
  return loads ? sum / loads : kNaN;
}

std::vector<TestPass> test_passes(const MeasuredSpace& space) {
  std::vector<TestPass> passes;
  for (const MeasuredPass& pass : space.passes)
    if (pass.role == Role::kTest &&
        std::any_of(pass.load_of_gpu.begin(), pass.load_of_gpu.end(), [](int l) { return l >= 0; }))
      passes.push_back({pass.tokens, pass.load_of_gpu});
  if (passes.empty())
    throw Error("test passes", "none in these measurements", "1 or more",
                "profile with held-out requests: `ramp profile` keeps a share of them apart");
  return passes;
}

int count_role(const MeasuredSpace& space, Role role) {
  return static_cast<int>(std::count_if(space.passes.begin(), space.passes.end(),
                                        [&](const auto& p) { return p.role == role; }));
}

}  // namespace

Evaluation evaluate(const MeasuredSpace& space, const EvaluateOptions& options) {
  std::vector<PolicyKind> kinds;
  for (const std::string& name : options.policies) kinds.push_back(policy_kind(name));
  if (kinds.empty()) {
    kinds = policy_kinds();
    if (!space.shipped.empty()) kinds.insert(kinds.begin(), shipped_policy_kind());
  }
  const PolicyKind& baseline_kind = policy_kind(options.baseline);

  Evaluation out;
  out.baseline = options.baseline;
  out.large_batch = options.large_batch;
  out.train_passes = count_role(space, Role::kTrain);
  out.uniform_passes = count_role(space, Role::kUniform);
  out.test_passes = count_role(space, Role::kTest);
  out.coverage = coverage(space);
  if (space.candidates.empty())
    throw Error("candidates", "none", "1 or more configurations",
                "profile, or look at why all were refused");

  const std::vector<TestPass> passes = test_passes(space);
  for (const TestPass& pass : passes) out.tokens.push_back(pass.tokens);
  const Direction directions[2] = {make_direction(space, options, Half::kFirst),
                                   make_direction(space, options, Half::kSecond)};
  const Run oracle =
      run_policy(policy_kind(kOraclePolicy), space, passes, directions, options.policy);
  const Run baseline = run_policy(baseline_kind, space, passes, directions, options.policy);
  for (size_t p = 0; p < passes.size(); ++p) out.unscored_passes += !timed(oracle.pass, p);

  for (const PolicyKind& kind : kinds) {
    Run run = run_policy(kind, space, passes, directions, options.policy);
    PolicyScore score{kind.name, kind.summary, kind.sees, run.bytes, {}, {}, {}, kNaN, 0, {}};
    score.unavailable = run.unavailable;
    if (run.unavailable.empty()) {
      score.all = compare(run, oracle, baseline, out.tokens, 0, options);
      score.large = compare(run, oracle, baseline, out.tokens, options.large_batch, options);
      score.regret = regret(run, oracle);
      for (size_t p = 0; p < passes.size(); ++p)
        score.untimed += timed(oracle.pass, p) && !timed(run.pass, p);
      score.times = std::move(run.pass);
    }
    out.scores.push_back(std::move(score));
  }
  return out;
}

std::vector<double> log_ratios(const std::vector<int>& tokens, const PassTimes& slow,
                               const PassTimes& fast, int least_tokens) {
  std::vector<double> logs;
  // A policy that could not learn has no times at all.
  if (slow.us[0].size() != tokens.size() || fast.us[0].size() != tokens.size()) return logs;
  for (size_t p = 0; p < tokens.size(); ++p)
    if (tokens[p] >= least_tokens && timed(slow, p) && timed(fast, p))
      logs.push_back(
          (std::log(slow.us[0][p] / fast.us[0][p]) + std::log(slow.us[1][p] / fast.us[1][p])) / 2);
  return logs;
}

const PolicyScore& score_of(const Evaluation& evaluation, std::string_view name) {
  for (const PolicyScore& score : evaluation.scores)
    if (score.name == name) return score;
  throw Error("policy", std::string(name), "one that was evaluated",
              "add it to the policies to evaluate");
}

}  // namespace ramp
