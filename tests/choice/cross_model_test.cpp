// SPDX-License-Identifier: Apache-2.0
#include "choice/cross_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "choice/held_out_layer.hpp"
#include "tests/choice/synthetic.hpp"

namespace ramp {
namespace {

// Times that follow the model's own terms: a wave, the stream through the slots that have an item
// and the additions; `slow` scales all of them.
MeasuredSpace layer(const std::string& model, int intermediate, std::uint64_t seed,
                    double slow = 1) {
  const double mb = 3e-6 * 2048 * intermediate;
  MeasuredSpace space =
      synthetic_space({.skew = 1.5, .seed = seed}, [=](const Candidate& c, const auto& load) {
        const Features f = features(c.grid, load.data(), static_cast<int>(load.size()));
        const Phase& p = c.grid.phase[0];
        const double pairs = std::accumulate(load.begin(), load.end(), 0.0);
        const double idle = std::max(1.0, static_cast<double>(p.slots) / f.tiles);
        return slow * (5 + f.waves * (mb / p.col_tiles + kItemMb) * (2 + 0.1 * p.rows) +
                       0.22 * mb * f.active * idle + 1e-6 * pairs * 2048 * p.col_tiles);
      });
  space.shape.hidden = 2048, space.shape.intermediate = intermediate;
  space.provenance.model = model;
  return space;
}

TEST(CrossModel, ALayerThatItNeverSawIsPredictedWhereTimesFollowItsTerms) {
  const MeasuredSpace a = layer("a", 512, 1), b = layer("b", 1024, 2), c = layer("c", 2048, 3);
  const MeasuredSpace* all[] = {&a, &b, &c};
  const HeldOutLayer held = score_held_out(c, all);
  EXPECT_EQ(held.others.size(), 2u);
  EXPECT_EQ(held.known, static_cast<int>(c.candidates.size()));
  EXPECT_LT(score_of(held.evaluation, kCrossPolicy).all.gap, 0.001);
  EXPECT_LT(held.cross.median_error, 0.01);
  EXPECT_GT(held.cross.rank_large, 0.99);
}

TEST(CrossModel, ALayerOfLikeMatricesCountsMore) {
  const MeasuredSpace quick = layer("a", 512, 1), slow = layer("b", 2048, 2, 1.2);
  const MeasuredSpace* both[] = {&quick, &slow};
  const std::vector<Lesson> lessons = recorded_lessons(both, Half::kBoth);
  const auto mean_ratio = [&](const MeasuredSpace& truth) {  // predicted over the layer's own time
    CrossModel model;
    model.fit(lessons, truth.shape);
    const TimeTable us = median_times(truth, Half::kBoth);
    double sum = 0;
    for (std::size_t l = 0; l < truth.loads.size(); ++l)
      sum += model.predict_us(truth.candidates[0], truth.loads[l]) / us[0][l];
    return sum / truth.loads.size();
  };
  EXPECT_LT(mean_ratio(layer("c", 640, 3)), 1.1);   // of a quick layer
  EXPECT_GT(mean_ratio(layer("c", 1792, 3)), 1.1);  // as the slow one's
}

TEST(CrossModel, TheHeldOutLayersTimesTeachItNothing) {
  const MeasuredSpace a = layer("a", 512, 1), b = layer("b", 1024, 2);
  MeasuredSpace turned = b;
  for (auto& row : turned.samples)
    for (auto& samples : row)
      for (float& us : samples) us = 1000 / us;
  PolicyOptions none;
  const auto learn = [&](const MeasuredSpace& space) {
    Lesson lesson = make_lesson(space, Role::kTrain, Half::kBoth);
    const MeasuredSpace* others[] = {&a};
    lesson.others = recorded_lessons(others, Half::kBoth);
    auto policy = policy_kind(kCrossPolicy).make(none);
    policy->learn(lesson);
    return policy;
  };
  const auto honest = learn(b), poisoned = learn(turned);
  for (const auto& load : b.loads)
    EXPECT_EQ(honest->choose({64, load, {}}), poisoned->choose({64, load, {}}));
}

TEST(CrossModel, AConfigurationThatOneFileAloneTimedIsKnownByItAndOthersAreNot) {
  MeasuredSpace a = layer("a", 512, 1);
  const MeasuredSpace b = layer("b", 1024, 2), c = layer("c", 2048, 3);
  for (auto& samples : a.samples[0]) samples.clear();
  a.candidates[1].label = "renamed";
  const MeasuredSpace* all[] = {&a, &b, &c};
  const HeldOutLayer held = score_held_out(c, all);
  EXPECT_EQ(held.known, static_cast<int>(c.candidates.size()));
  EXPECT_EQ(held.known_by_one, 2);
  CrossModel model;
  model.fit(recorded_lessons(std::span(all, 1), Half::kBoth), c.shape);
  EXPECT_FALSE(model.knows(c.candidates[0]));
  EXPECT_FALSE(std::isfinite(model.predict_us(c.candidates[1], c.loads[0])));
}

TEST(CrossModel, OneModelAloneCantBeHeldOut) {
  const MeasuredSpace a = layer("a", 512, 1), twin = layer("a", 512, 2);
  const MeasuredSpace* all[] = {&a, &twin};
  EXPECT_THROW(score_held_out(a, all), Error);
}

}  // namespace
}  // namespace ramp
