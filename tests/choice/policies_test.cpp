// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "choice/batch_table.hpp"
#include "choice/policy.hpp"
#include "tests/choice/lessons.hpp"
#include "tests/choice/synthetic.hpp"

namespace ramp {
namespace {

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

// Whatever the test passes hold (their loads' times and counts, their tokens, their domain), every
// policy that learns comes out the same and chooses the same.
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
  for (size_t l = 0; l < poisoned.loads.size(); ++l) {
    if (!only_test[l]) continue;
    for (int& n : poisoned.loads[l]) n = 5000 - n;
    for (size_t c = 0; c < poisoned.candidates.size(); ++c)
      poisoned.samples[c][l].assign(4, 1000.0f - 50 * static_cast<float>(c)), ++changed;
  }
  ASSERT_GT(changed, 1000);
  for (MeasuredPass& pass : poisoned.passes)
    if (pass.role == Role::kTest) pass.tokens = 3, pass.domain = "another";

  const Lesson a_lesson = make_lesson(honest, Role::kTrain, Half::kFirst),
               b_lesson = make_lesson(poisoned, Role::kTrain, Half::kFirst);
  EXPECT_EQ(a_lesson.loads, b_lesson.loads);
  EXPECT_EQ(a_lesson.us, b_lesson.us);  // bit for bit
  for (const PolicyKind& kind : policy_kinds()) {
    const auto a = learned(kind.name, honest), b = learned(kind.name, poisoned);
    EXPECT_EQ(a->bytes(), b->bytes()) << kind.name;
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

TEST(Policies, OnlyVllmsTuningsLearnFromUniformRouting) {
  for (const PolicyKind& kind : policy_kinds())
    EXPECT_EQ(kind.learns_from == Role::kUniform,
              kind.name == kVllmPolicy || kind.name == "vllm-tuner")
        << kind.name;
}

// What a policy says that it doesn't see is changed, and it chooses the same; what it says that it
// sees matters to it somewhere.
TEST(Policies, SeeWhatTheySayAndNoMore) {
  const MeasuredSpace space =
      synthetic_space({.train_passes = 200, .skew = 2.5, .other_skew = 0.2, .samples = 2});
  std::map<Sight, int> policies_of;
  for (const PolicyKind& kind : policy_kinds()) {
    SCOPED_TRACE(kind.name);
    ++policies_of[kind.sees];
    if (kind.oracle()) continue;
    const auto policy = learned(kind.name, space);
    EXPECT_GT(policy->bytes(), 0u);
    std::set<int> of_batch, of_count;
    bool spread_matters = false;
    for (int pairs : {8, 24, 48, 96, 160, 256, 400, 800, 3200}) {
      of_batch.insert(policy->choose({pairs, std::vector<int>(8, 5), {}}));
      of_count.insert(policy->choose({64, std::vector<int>(8, pairs / 8), {}}));
      std::set<int> of_spread;
      for (int on : {1, 2, 3, 4, 6, 8}) {
        std::vector<int> load(8, 0);
        for (int p = 0; p < pairs; ++p) ++load[p % on];
        of_spread.insert(policy->choose({64, load, {}}));
        // The order of the experts is a name, not a property.
        std::vector<int> turned(load.rbegin(), load.rend());
        EXPECT_EQ(policy->choose({64, load, {}}), policy->choose({64, turned, {}}));
      }
      spread_matters |= of_spread.size() > 1;
    }
    // The same tokens as they came, and spread evenly.
    for (const auto& load : space.loads) {
      std::vector<int> even(load.size());
      for (int p = 0; p < pairs_of(load); ++p) ++even[p % even.size()];
      spread_matters |= policy->choose({64, load, {}}) != policy->choose({64, even, {}});
    }
    EXPECT_EQ(of_batch.size() > 1, kind.sees == Sight::kBatch);
    EXPECT_EQ(of_count.size() > 1, kind.sees == Sight::kGpuCount || kind.sees == Sight::kLoad);
    EXPECT_EQ(spread_matters, kind.sees == Sight::kLoad);
  }
  for (Sight sight :
       {Sight::kNothing, Sight::kBatch, Sight::kGpuCount, Sight::kLoad, Sight::kTimes})
    EXPECT_GE(policies_of[sight], 1) << sight_name(sight);
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
    if (kind.name == kOraclePolicy) continue;  // it learns nothing
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
  for (const PolicyKind& kind : policy_kinds())
    if (!kind.oracle()) {
      const auto policy = learned(kind.name, space);
      for (const auto& load : space.loads)
        EXPECT_NE(policy->choose({64, load, {}}), 5) << kind.name;
    }
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

// Where one line for all sizes cannot say which configuration is fastest, a line a range can: low
// tiles take twice as long on loads of large passes, tall ones on the others.
TEST(CostModelSized, PicksWhereOneLineForAllSizesCannot) {
  const auto time = [](const Candidate& c, const std::vector<int>& load) {
    int pairs = 0;
    for (const int n : load) pairs += n;
    return eq3_time(c, load) * ((pairs > 200) == (c.grid.phase[0].rows < 32) ? 2 : 1);
  };
  const MeasuredSpace space = synthetic_space({}, time);
  const Lesson lesson = lesson_of(space);
  const auto lost = [&](std::string_view name) {
    const auto policy = learned(name, space);
    double sum = 0, n = 0;
    for (const LessonPass& pass : lesson.passes)
      for (const int l : pass.load_of_gpu) {
        if (l < 0) continue;
        float best = lesson.us[0][l];
        for (const auto& row : lesson.us) best = std::min(best, row[l]);
        sum += lesson.us[policy->choose({pass.tokens, lesson.loads[l], {}})][l] / best - 1, ++n;
      }
    return sum / n;
  };
  EXPECT_LT(lost("cost-model-sized"), 0.5 * lost("cost-model"));
  EXPECT_LT(lost("cost-model-sized"), 0.02);
}

}  // namespace
}  // namespace ramp
