// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "choice/batch_table.hpp"
#include "choice/policy.hpp"
#include "tests/choice/synthetic.hpp"

namespace ramp {
namespace {

std::unique_ptr<Policy> learned(std::string_view name, const MeasuredSpace& space) {
  const PolicyKind& kind = policy_kind(name);
  std::unique_ptr<Policy> policy = kind.make({});
  policy->learn(make_lesson(space, kind.learns_from, Half::kBoth));
  return policy;
}

TEST(Policies, HaveDifferentNamesAndOneLineEach) {
  std::set<std::string> names;
  for (const PolicyKind& kind : policy_kinds()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_FALSE(kind.summary.empty());
    EXPECT_EQ(policy_kind(kind.name).name, kind.name);
  }
  for (std::string_view name : {kFixedPolicy, kVllmPolicy, kMenuPolicy, kOraclePolicy})
    EXPECT_TRUE(names.count(std::string(name)));
  EXPECT_THROW(policy_kind("crystal-ball"), Error);
}

// Whatever the test passes' times are, every policy that learns chooses the same.
TEST(Policies, NeverSeeWhatTheyAreScoredOn) {
  const MeasuredSpace honest = synthetic_space({.noise = 0.02});
  MeasuredSpace poisoned = honest;
  std::vector<char> only_test(honest.loads.size(), 0);
  for (const MeasuredPass& pass : honest.passes)
    for (int load : pass.load_of_gpu)
      if (load >= 0 && pass.role == Role::kTest) only_test[load] = 1;
  for (const MeasuredPass& pass : honest.passes)
    for (int load : pass.load_of_gpu)
      if (load >= 0 && pass.role != Role::kTest) only_test[load] = 0;
  int changed = 0;
  for (size_t c = 0; c < poisoned.candidates.size(); ++c)
    for (size_t l = 0; l < poisoned.loads.size(); ++l)
      if (only_test[l])
        poisoned.samples[c][l].assign(4, 1000.0f - 50 * static_cast<float>(c)), ++changed;
  ASSERT_GT(changed, 1000);
  for (MeasuredPass& pass : poisoned.passes)
    if (pass.role == Role::kTest) pass.tokens = 3;

  for (const PolicyKind& kind : policy_kinds()) {
    const auto a = learned(kind.name, honest), b = learned(kind.name, poisoned);
    for (const MeasuredPass& pass : honest.passes)
      for (int load : pass.load_of_gpu) {
        if (load < 0) continue;
        std::vector<float> timed(honest.candidates.size());
        for (size_t c = 0; c < timed.size(); ++c) timed[c] = 10 + static_cast<float>((c * 7) % 5);
        const Seen seen{pass.tokens, honest.loads[load], timed};
        EXPECT_EQ(a->choose(seen), b->choose(seen)) << kind.name;
      }
  }
}

TEST(Policies, OnlyVllmTuningLearnsFromUniformRouting) {
  for (const PolicyKind& kind : policy_kinds())
    EXPECT_EQ(kind.learns_from == Role::kUniform, kind.name == kVllmPolicy);
}

TEST(Policies, TheCostModelPicksTheTruthWhereTimesFollowEq3) {
  const MeasuredSpace space = synthetic_space();
  const auto model = learned("cost-model", space);
  int loads = 0, wrong = 0;
  for (const MeasuredPass& pass : space.passes) {
    if (pass.role != Role::kTest) continue;
    for (int load : pass.load_of_gpu) {
      if (load < 0) continue;
      float best = INFINITY;
      for (size_t c = 0; c < space.candidates.size(); ++c)
        best = std::min(best, space.samples[c][load][0]);
      const int choice = model->choose({pass.tokens, space.loads[load], {}});
      ++loads;
      wrong += space.samples[choice][load][0] > best * 1.0005f;
    }
  }
  EXPECT_GT(loads, 200);
  EXPECT_EQ(wrong, 0);
}

TEST(Policies, TablesSeeTheBatchAndNothingElse) {
  const MeasuredSpace space = synthetic_space();
  const std::vector<int> quiet = {1, 0, 0, 0, 0, 0, 0, 0},
                         busy = {400, 300, 200, 100, 90, 80, 70, 60};
  for (const char* name : {"fixed", "vllm-tuning", "trace-table", "menu-table"}) {
    const auto policy = learned(name, space);
    for (int tokens : {1, 100, 1000})
      EXPECT_EQ(policy->choose({tokens, quiet, {}}), policy->choose({tokens, busy, {}})) << name;
  }
  const auto gpu = learned("gpu-table", space);
  EXPECT_EQ(gpu->choose({1, busy, {}}), gpu->choose({1000, busy, {}}));
  EXPECT_NE(gpu->choose({100, quiet, {}}), gpu->choose({100, busy, {}}));
}

TEST(Policies, MenuPoliciesStayOnOneMenu) {
  const MeasuredSpace space = synthetic_space();
  PolicyOptions options;
  options.menu.entries = 2;
  const Lesson lesson = make_lesson(space, Role::kTrain, Half::kBoth);
  const GreedyMenu menu = greedy_menu(lesson, options.menu);
  for (const char* name : {"cost-model-menu", "menu-table", "menu-exhaustive"}) {
    const auto policy = policy_kind(name).make(options);
    policy->learn(lesson);
    for (size_t l = 0; l < space.loads.size(); ++l) {
      std::vector<float> timed(space.candidates.size());
      for (size_t c = 0; c < timed.size(); ++c) timed[c] = space.samples[c][l][0];
      const int choice = policy->choose({static_cast<int>(l), space.loads[l], timed});
      EXPECT_TRUE(choice == menu.candidates[0] || choice == menu.candidates[1]) << name;
    }
  }
}

TEST(Policies, SayWhyTheyCannotLearn) {
  MeasuredSpace space = synthetic_space({.uniform_passes = false});
  EXPECT_THROW(learned("vllm-tuning", space), Error);
  space.passes.clear();
  for (const PolicyKind& kind : policy_kinds()) {
    if (kind.name == kOraclePolicy) continue;
    EXPECT_THROW(learned(kind.name, space), Error) << kind.name;
  }
}

TEST(Lesson, CandidatesTimedHereAndThereAreFittedButNotPicked) {
  MeasuredSpace space = synthetic_space();
  for (size_t l = 0; l < space.loads.size(); ++l) {
    if (l % 10)
      space.samples[5][l].clear();
    else
      space.samples[5][l].assign(4, 0.01f);  // far the fastest, where it was timed
  }
  const Lesson lesson = make_lesson(space, Role::kTrain, Half::kBoth);
  EXPECT_EQ(std::count(lesson.learnable.begin(), lesson.learnable.end(), 5), 0);
  EXPECT_EQ(lesson.learnable.size(), space.candidates.size() - 1);
  for (const char* name : {"fixed", "trace-table", "gpu-table", "cost-model", "cost-model-menu"})
    EXPECT_NE(learned(name, space)->choose({64, space.loads[0], {}}), 5) << name;
}

TEST(BatchTable, LooksUpTheNearestKeyAndTiesGoDown) {
  const int keys[] = {1, 2, 4, 8};
  EXPECT_EQ(nearest_key(keys, 0), 0);
  EXPECT_EQ(nearest_key(keys, 3), 1);  // 2 and 4 are as near: vLLM takes the first
  EXPECT_EQ(nearest_key(keys, 6), 2);
  EXPECT_EQ(nearest_key(keys, 7), 3);
  EXPECT_EQ(nearest_key(keys, 100000), 3);
}

TEST(BatchTable, HoldsOnlySizesThatWereSeen) {
  const MeasuredSpace space = synthetic_space({.sizes = {16, 256}});
  const Lesson lesson = make_lesson(space, Role::kTrain, Half::kBoth);
  const BatchTable table = tune_batch_table(lesson, lesson.learnable);
  EXPECT_EQ(table.keys, (std::vector<int>{16, 256}));
}

TEST(BatchTable, KeepsTheConfigurationWhoseSlowestGpuIsFastest) {
  const MeasuredSpace space = synthetic_space({.sizes = {160}});
  const Lesson lesson = make_lesson(space, Role::kTrain, Half::kBoth);
  const BatchTable table = tune_batch_table(lesson, lesson.learnable);
  const auto log_time = [&](int c) {
    double log = 0;
    for (const LessonPass& pass : lesson.passes)
      log += std::log(pass_us(lesson.us, pass.load_of_gpu, c));
    return log;
  };
  for (int c : lesson.learnable) EXPECT_LE(log_time(table.choice[0]), log_time(c));
}

}  // namespace
}  // namespace ramp
