// SPDX-License-Identifier: Apache-2.0
#include "choice/evaluate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.hpp"
#include "choice/tune.hpp"
#include "tests/choice/synthetic.hpp"

namespace ramp {
namespace {

double gap(const Evaluation& e, std::string_view policy) { return score_of(e, policy).all.gap; }
double large_gap(const Evaluation& e, std::string_view policy) {
  return score_of(e, policy).large.gap;
}

TEST(Evaluate, TheCostModelReachesTheBoundWhereTimesFollowEq3) {
  const Evaluation e = evaluate(synthetic_space());
  EXPECT_NEAR(gap(e, "exhaustive"), 0, 1e-12);
  EXPECT_NEAR(gap(e, "cost-model"), 0, 1e-3);
  EXPECT_NEAR(score_of(e, "cost-model").regret, 0, 1e-3);
  EXPECT_EQ(e.unscored_passes, 0);
  for (const PolicyScore& score : e.scores) {
    EXPECT_EQ(score.unavailable, "") << score.name;
    EXPECT_EQ(score.all.passes, 40) << score.name;
    EXPECT_GE(score.all.gap, -1e-9) << score.name;  // without noise nothing beats exhaustive search
    EXPECT_GE(score.regret, -1e-9) << score.name;
    EXPECT_EQ(score.untimed, 0) << score.name;
  }
}

// Section 4.2: what pays is choosing from each GPU's own load, which no policy keyed on the batch
// can do.
TEST(Evaluate, UnderSkewAGpuTableBeatsABatchTableWhereTheGpusTokensDecide) {
  const auto by_pairs = [](const Candidate& c, const std::vector<int>& load) {
    const double rows = c.grid.phase[0].rows;
    return 5 + 0.3 * rows + pairs_of(load) * 2.0 / rows;
  };
  const Evaluation e = evaluate(synthetic_space(
      {.train_passes = 200, .test_passes = 100, .skew = 2.5, .other_skew = 0.2}, by_pairs));
  EXPECT_LT(large_gap(e, "gpu-table"), large_gap(e, "trace-table") / 2);
  EXPECT_LT(large_gap(e, "trace-table"), large_gap(e, "fixed"));
}

TEST(Evaluate, TheCostModelBeatsBothTablesWhereTheSpreadOverExpertsDecides) {
  const Evaluation e =
      evaluate(synthetic_space({.train_passes = 200, .test_passes = 100, .skew = 1.6}));
  EXPECT_LT(large_gap(e, "cost-model"), large_gap(e, "gpu-table") / 2);
  EXPECT_LT(large_gap(e, "cost-model"), large_gap(e, "trace-table") / 2);
  EXPECT_LT(large_gap(e, "trace-table"), large_gap(e, "fixed"));
  EXPECT_GT(large_gap(e, "trace-table"), 0.01);
}

TEST(Evaluate, AMenuLosesToTheFullSpaceAndTheLossHasTwoParts) {
  EvaluateOptions options;
  options.policy.menu.entries = 2;
  const Evaluation e = evaluate(synthetic_space({.skew = 1.6}), options);
  EXPECT_LE(gap(e, "cost-model") - 1e-6, gap(e, "menu-exhaustive"));
  EXPECT_LE(gap(e, "menu-exhaustive") - 1e-6, gap(e, "cost-model-menu"));
  EXPECT_LE(gap(e, "cost-model-menu"), gap(e, "menu-table") + 1e-6);
}

TEST(Evaluate, SpeedupIsOverTheBaselineAndItsOwnIsOne) {
  const Evaluation e = evaluate(synthetic_space({.skew = 1.6}));
  EXPECT_EQ(e.baseline, "vllm-tuning");
  EXPECT_DOUBLE_EQ(score_of(e, "vllm-tuning").all.speedup, 1);
  const Comparison& best = score_of(e, "exhaustive").all;
  EXPECT_NEAR(best.speedup, 1 + gap(e, "vllm-tuning"), 1e-6);  // geometric means of the same ratios
  EXPECT_LE(best.interval.low, best.speedup);
  EXPECT_GE(best.interval.high, best.speedup);
  EXPECT_GT(best.interval.high, best.interval.low);
}

// The slowest GPU counts: a policy that is wrong on the others loses regret and no time.
TEST(Evaluate, AnyTwoPoliciesCanBeComparedByTheirPasses) {
  const MeasuredSpace space = synthetic_space({.skew = 1.5, .noise = 0.01});
  const Evaluation e = evaluate(space, {.baseline = "trace-table"});
  const PolicyScore &model = score_of(e, "cost-model"), &table = score_of(e, "trace-table");
  EXPECT_DOUBLE_EQ(exp_mean(log_ratios(e.tokens, table.times, model.times, 0)), model.all.speedup);
  EXPECT_EQ(log_ratios(e.tokens, table.times, model.times, 128).size(),
            static_cast<size_t>(model.large.passes));
  // One that could not learn has no times, and no ratio.
  EXPECT_TRUE(log_ratios(e.tokens, PassTimes{}, model.times, 0).empty());
}

TEST(Evaluate, APolicyCanLearnOnOneLayoutAndBeScoredOnAnother) {
  const SyntheticOptions own{.gpus = 8, .skew = 1.5}, other{.gpus = 16, .skew = 1.5, .seed = 5};
  const MeasuredSpace here = synthetic_space(own);
  MeasuredSpace there = synthetic_space(other);
  // Known by label, wherever they stand.
  std::reverse(there.candidates.begin(), there.candidates.end());
  std::reverse(there.samples.begin(), there.samples.end());
  const Evaluation at_home = evaluate(here), moved = evaluate(here, {.learn_from = &there});
  // Eq. 3 is the truth here, so its coefficients move (few waves on small shares tell two of them
  // badly apart); the table's rows do not.
  EXPECT_LT(score_of(moved, "cost-model").all.gap, 0.02);
  EXPECT_GT(score_of(moved, "gpu-table").all.gap, score_of(at_home, "gpu-table").all.gap);
  there.candidates.pop_back(), there.samples.pop_back();  // the first is unknown there
  const Lesson lesson = lesson_for(make_lesson(there, Role::kTrain, Half::kBoth), here.candidates);
  EXPECT_EQ(lesson.learnable.size(), here.candidates.size() - 1);
  EXPECT_EQ(lesson.learnable.front(), 1);
  EXPECT_EQ(lesson.candidates[1].label, here.candidates[1].label);
}

TEST(Evaluate, OnlyTheSlowestGpuCosts) {
  MeasuredSpace space;
  space.shape = {1, 1, 128, 128};
  space.gpus = 2;
  space.candidates = {{"a", "{}", Grid{{{8, 1, 132}}, 1}, "x"},
                      {"b", "{}", Grid{{{64, 1, 132}}, 1}, "x"}};
  space.loads = {{100}, {1}};
  space.passes = {{101, 0, "d", Role::kTrain, {0, 0}}, {101, 0, "d", Role::kTest, {0, 1}}};
  space.samples = {{{20, 20}, {2, 2}}, {{10, 10}, {4, 4}}};
  EvaluateOptions options;
  options.policies = {"fixed"};
  options.baseline = "fixed";
  const Evaluation e = evaluate(space, options);
  EXPECT_DOUBLE_EQ(e.scores[0].all.gap, 0);             // b is right on the slow GPU
  EXPECT_DOUBLE_EQ(e.scores[0].regret, (0 + 1) / 2.0);  // and twice too slow on the other
}

// With noise alone and no difference between candidates, picking and scoring on the same samples
// would promise a gain; on halves it can't.
TEST(Evaluate, NoiseDoesNotFlatterExhaustiveSearch) {
  const MeasuredSpace space =
      synthetic_space({.test_passes = 200, .noise = 0.03, .samples = 2},
                      [](const Candidate&, const std::vector<int>&) { return 50.0; });
  EvaluateOptions options;
  options.policies = {"fixed", "exhaustive"};
  options.baseline = "fixed";
  const Evaluation e = evaluate(space, options);
  EXPECT_NEAR(gap(e, "fixed"), 0, 0.004);
  const TimeTable us = median_times(space, Half::kFirst);
  double flattered = 0;
  int loads = 0;
  for (size_t l = 0; l < space.loads.size(); ++l, ++loads) {
    float best = INFINITY;
    for (const auto& row : us) best = std::min(best, row[l]);
    flattered += us[0][l] / best - 1;
  }
  EXPECT_GT(flattered / loads, 0.03);  // what the mistake would have shown
}

TEST(Evaluate, APickThatWasNotTimedIsNeverATime) {
  MeasuredSpace space = synthetic_space();
  EvaluateOptions options;
  options.policies = {"fixed", "exhaustive"};
  options.baseline = "fixed";
  const auto fixed = policy_kind("fixed").make({});
  fixed->learn(make_lesson(space, Role::kTrain, Half::kBoth));
  const int pick = fixed->choose({1, space.loads[0], {}});
  std::set<int> in_training, hidden;
  for (const MeasuredPass& pass : space.passes)
    if (pass.role == Role::kTrain)
      in_training.insert(pass.load_of_gpu.begin(), pass.load_of_gpu.end());
  for (const MeasuredPass& pass : space.passes)
    if (pass.role == Role::kTest)
      for (int load : pass.load_of_gpu)
        if (load >= 0 && hidden.size() < 3 && !in_training.count(load)) hidden.insert(load);
  int hit = 0;
  for (const MeasuredPass& pass : space.passes)
    hit += pass.role == Role::kTest && std::any_of(pass.load_of_gpu.begin(), pass.load_of_gpu.end(),
                                                   [&](int load) { return hidden.count(load); });
  for (int load : hidden) space.samples[pick][load].clear();
  ASSERT_GE(hit, 1);
  const Evaluation e = evaluate(space, options);
  EXPECT_EQ(score_of(e, "fixed").untimed, hit);
  EXPECT_EQ(score_of(e, "fixed").all.passes, 40 - hit);
  EXPECT_EQ(score_of(e, "exhaustive").all.passes, 40);
}

TEST(Evaluate, APolicyThatCannotLearnSaysWhyAndTheOthersGoOn) {
  const Evaluation e = evaluate(synthetic_space({.uniform_passes = false}));
  EXPECT_NE(score_of(e, "vllm-tuning").unavailable, "");
  EXPECT_TRUE(std::isnan(score_of(e, "cost-model").all.speedup));
  EXPECT_FALSE(std::isnan(score_of(e, "cost-model").all.gap));
}

TEST(Evaluate, NeedsHeldOutPasses) {
  EXPECT_THROW(evaluate(synthetic_space({.test_passes = 0})), Error);
  EvaluateOptions options;
  options.policies = {"no-such"};
  EXPECT_THROW(evaluate(synthetic_space(), options), Error);
}

TEST(Evaluate, TheSameMeasurementsGiveTheSameNumbers) {
  const MeasuredSpace space = synthetic_space({.noise = 0.02});
  const Evaluation a = evaluate(space), b = evaluate(space);
  for (size_t i = 0; i < a.scores.size(); ++i) {
    EXPECT_EQ(a.scores[i].all.gap, b.scores[i].all.gap);
    EXPECT_EQ(a.scores[i].all.interval.low, b.scores[i].all.interval.low);
  }
}

TEST(Evaluate, FindsPairsThatWereTimedOnce) {
  MeasuredSpace space = synthetic_space();
  space.samples[1][2].resize(1);
  space.samples[1][3].clear();
  const Coverage c = evaluate(space).coverage;
  EXPECT_EQ(c.timed_once, 1);
  EXPECT_EQ(c.pairs - c.timed, 1);
}

TEST(FitQuality, IsPerfectWithoutNoiseAndBoundedByTwoRunsWithIt) {
  const FitQuality clean = fit_quality(synthetic_space());
  EXPECT_TRUE(clean.held_out);
  EXPECT_GT(clean.rank_large, 0.999);
  EXPECT_DOUBLE_EQ(clean.twin_large, 1);
  EXPECT_LT(clean.median_error, 1e-3);
  const FitQuality noisy = fit_quality(synthetic_space({.noise = 0.05}));
  EXPECT_LT(noisy.twin_all, 0.999);
  EXPECT_GT(noisy.rank_all, 0.97 * noisy.twin_all);
  EXPECT_NEAR(noisy.median_error, 0.05 * 0.6745 / std::sqrt(2),
              0.01);  // the noise of a half of two samples
  EXPECT_FALSE(fit_quality(synthetic_space({.test_passes = 0})).held_out);
}

TEST(Evaluate, ScoresEveryPolicyOnEightyConfigurationsAndFiveHundredLoads) {
  MeasuredSpace space =
      synthetic_space({.train_passes = 40, .test_passes = 30, .noise = 0.02, .samples = 3});
  while (space.candidates.size() < 80) {
    const size_t from = space.candidates.size() % 16;
    space.candidates.push_back(space.candidates[from]);
    space.candidates.back().label += "-" + std::to_string(space.candidates.size());
    space.samples.push_back(space.samples[from]);
  }
  EXPECT_GT(space.loads.size(), 450u);
  const Evaluation evaluation = evaluate(space);
  EXPECT_EQ(evaluation.scores.size(), policy_kinds().size());
  for (const PolicyScore& score : evaluation.scores) {
    EXPECT_EQ(score.unavailable, "") << score.name;
    EXPECT_EQ(score.untimed, 0) << score.name;
    EXPECT_EQ(score.all.passes, 30) << score.name;
  }
}

TEST(Tune, MakesAPlanThatPredictsWhatItSays) {
  const MeasuredSpace space = synthetic_space({.noise = 0.01, .samples = 4});
  const Plan plan = tune_from(space, {.entries = 4, .menus = 1});
  EXPECT_EQ(plan.menu.size(), 4u);
  EXPECT_EQ(plan.quality.test_passes, 40);
  EXPECT_LT(plan.quality.median_error, 0.02);
  EXPECT_GE(plan.quality.speedup_over_fixed, 1.0);
  EXPECT_GT(plan.quality.speedup_over_vllm, 0.99);
  EXPECT_FALSE(plan.batch_table.empty());
  EXPECT_TRUE(verdict(plan).known);
  EXPECT_EQ(verdict(plan).worth_it, plan.quality.speedup_over_fixed >= 1.01);
}

TEST(Tune, SaysNotWorthItWhereOneConfigurationIsBestEverywhere) {
  const MeasuredSpace space =
      synthetic_space({}, [](const Candidate& c, const std::vector<int>& load) {
        return eq3_time(synthetic_candidates()[2], load) * (c.label == "r8-q8-s132" ? 1 : 1.3);
      });
  const Plan plan = tune_from(space);
  EXPECT_EQ(plan.menu.size(), 1u);
  EXPECT_EQ(plan.menu[0].label, "r8-q8-s132");
  EXPECT_NEAR(plan.quality.speedup_over_fixed, 1, 1e-6);
  EXPECT_FALSE(verdict(plan).worth_it);
  EXPECT_NE(verdict(plan).text.find("not worth it"), std::string::npos);
}

TEST(Tune, WithoutHeldOutPassesPromisesNothing) {
  const Plan plan = tune_from(synthetic_space({.test_passes = 0}));
  EXPECT_TRUE(std::isnan(plan.quality.gap));
  EXPECT_FALSE(verdict(plan).known);
}

TEST(MeasuredSpace, ChecksWhatEverythingElseReliesOn) {
  const MeasuredSpace good = synthetic_space({.train_passes = 4, .test_passes = 2});
  EXPECT_NO_THROW(check_space(good));
  const auto refuses = [&](auto&& spoil) {
    MeasuredSpace bad = good;
    spoil(bad);
    EXPECT_THROW(check_space(bad), Error);
  };
  refuses([](MeasuredSpace& s) { s.samples.pop_back(); });
  refuses([](MeasuredSpace& s) { s.samples[0].pop_back(); });
  refuses([](MeasuredSpace& s) { s.samples[0][0][0] = 0; });
  refuses([](MeasuredSpace& s) { s.samples[0][0][0] = NAN; });
  refuses([](MeasuredSpace& s) { s.loads[0][0] = -1; });
  refuses([](MeasuredSpace& s) { s.loads[0][0] = kMaxPairs + 1; });
  refuses([](MeasuredSpace& s) { s.passes[0].load_of_gpu[0] = 1 << 20; });
  refuses([](MeasuredSpace& s) { s.passes[0].tokens = -1; });
  refuses([](MeasuredSpace& s) { s.candidates[1].label = s.candidates[0].label; });
  refuses([](MeasuredSpace& s) { s.candidates[1].grid.phase[0].slots = 0; });
  refuses([](MeasuredSpace& s) { s.candidates[1].grid.phases = 3; });
  refuses([](MeasuredSpace& s) { s.gpus = 0; });
}

// A campaign that ended before its first time; menus of nothing used to be chosen from.
TEST(Evaluate, AFileWithoutATimeHasPoliciesThatCannotLearn) {
  MeasuredSpace space = synthetic_space({});
  for (auto& row : space.samples)
    for (auto& samples : row) samples.clear();
  const Evaluation evaluation = evaluate(space);
  for (const std::string_view name : {kMenuPolicy, kMenusPolicy, std::string_view("menu-table")})
    EXPECT_NE(score_of(evaluation, name).unavailable, "") << name;
}

}  // namespace
}  // namespace ramp
