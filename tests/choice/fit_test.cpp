// SPDX-License-Identifier: Apache-2.0
#include "choice/fit.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "problem/random.hpp"
#include "tests/choice/synthetic.hpp"

namespace ramp {
namespace {

using Row = std::array<double, 4>;  // of the matrix whose residual is minimised: columns over time

std::vector<Row> rows_of(const std::vector<Observation>& observations) {
  std::vector<Row> rows;
  for (const Observation& o : observations)
    rows.push_back({1.0 / o.us, 1.0 * o.features.waves / o.us, 1.0 * o.features.tiles / o.us,
                    1.0 * o.features.active / o.us});
  return rows;
}

double residual(const std::vector<Row>& rows, const Row& theta) {
  double sum = 0;
  for (const Row& r : rows) {
    double error = -1;
    for (int t = 0; t < 4; ++t) error += r[t] * theta[t];
    sum += error * error;
  }
  return sum;
}

Row theta_of(const Fit& fit) {
  return {fit.theta.fixed, fit.theta.wave, fit.theta.tile, fit.theta.expert};
}

// Another solver altogether: coordinate descent on the scaled problem, run until nothing moves.
Row coordinate_descent(std::vector<Row> rows) {
  Row length{}, theta{};
  for (int t = 0; t < 4; ++t) {
    for (const Row& r : rows) length[t] += r[t] * r[t];
    length[t] = std::sqrt(length[t]);
    if (length[t] > 0)
      for (Row& r : rows) r[t] /= length[t];
  }
  double gram[4][4] = {}, rhs[4] = {};
  for (const Row& r : rows)
    for (int i = 0; i < 4; ++i) {
      rhs[i] += r[i];
      for (int j = 0; j < 4; ++j) gram[i][j] += r[i] * r[j];
    }
  for (int sweep = 0; sweep < 400000; ++sweep) {
    double moved = 0;
    for (int i = 0; i < 4; ++i) {
      if (gram[i][i] == 0) continue;
      double gradient = -rhs[i];
      for (int j = 0; j < 4; ++j) gradient += gram[i][j] * theta[j];
      const double next = std::max(0.0, theta[i] - gradient / gram[i][i]);
      moved = std::max(moved, std::abs(next - theta[i]));
      theta[i] = next;
    }
    if (moved < 1e-14) break;
  }
  for (int t = 0; t < 4; ++t) theta[t] = length[t] > 0 ? theta[t] / length[t] : 0;
  return theta;
}

// Loads of a real grid's shape, times from theta with relative noise.
std::vector<Observation> observations(const Theta& theta, double noise, int count,
                                      std::uint64_t seed) {
  Random random(seed);
  const Grid grid{{{16, 8, 132}}, 1};
  std::vector<Observation> out;
  for (int i = 0; i < count; ++i) {
    int load[8];
    for (int& n : load) n = static_cast<int>(random.below(1 + (i % 9) * 40));
    load[0] += 1;
    const Features f = features(grid, load, 8);
    out.push_back({f, predict_us(theta, f) * static_cast<float>(1 + noise * random.normal())});
  }
  return out;
}

TEST(Fit, RecoversAPlantedThetaExactly) {
  const Theta planted{4.5f, 2.25f, 0.03f, 0.5f};
  const Fit fit = fit_theta(observations(planted, 0, 60, 1));
  EXPECT_NEAR(fit.theta.fixed, planted.fixed, 1e-4);
  EXPECT_NEAR(fit.theta.wave, planted.wave, 1e-4);
  EXPECT_NEAR(fit.theta.tile, planted.tile, 1e-6);
  EXPECT_NEAR(fit.theta.expert, planted.expert, 1e-4);
  EXPECT_EQ(fit.rank, 4);
  EXPECT_LT(fit.median_error, 1e-6);
}

TEST(Fit, MatchesASecondSolverOnNoisyProblems) {
  const Theta truths[] = {{5, 2, 0.02f, 0.3f}, {0, 3, 0, 1}, {8, 0, 0.1f, 0}, {1, 0.1f, 0.001f, 2}};
  for (const Theta& truth : truths)
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      const std::vector<Observation> seen = observations(truth, 0.08, 40, seed);
      const std::vector<Row> rows = rows_of(seen);
      const double ours = residual(rows, theta_of(fit_theta(seen))),
                   theirs = residual(rows, coordinate_descent(rows));
      EXPECT_LE(ours, theirs * (1 + 1e-6)) << "seed " << seed;
      EXPECT_NEAR(ours, theirs, theirs * 1e-3) << "seed " << seed;
    }
}

// Karush-Kuhn-Tucker: no coefficient below zero, none above zero with a slope, none at zero that
// wants to rise.
TEST(Fit, MeetsTheConditionsOfAnOptimum) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    std::vector<Observation> seen = observations({3, 1, 0.05f, 0.4f}, 0.3, 25, seed);
    for (Observation& o : seen)
      o.us = static_cast<float>(1 + 50 * random.uniform());  // no truth at all
    const Row theta = theta_of(fit_theta(seen));
    const std::vector<Row> rows = rows_of(seen);
    for (int t = 0; t < 4; ++t) {
      double slope = 0, length = 0;
      for (const Row& r : rows) {
        double error = -1;
        for (int j = 0; j < 4; ++j) error += r[j] * theta[j];
        slope += r[t] * error, length += r[t] * r[t];
      }
      slope /= std::sqrt(length * rows.size());
      EXPECT_GE(theta[t], 0);
      if (theta[t] > 0)
        EXPECT_NEAR(slope, 0, 1e-5) << "seed " << seed << " term " << t;
      else
        EXPECT_GE(slope, -1e-5) << "seed " << seed << " term " << t;
    }
  }
}

TEST(Fit, NoNeighbourIsBetter) {
  const std::vector<Observation> seen = observations({5, 2, 0.02f, 0.3f}, 0.1, 50, 7);
  const std::vector<Row> rows = rows_of(seen);
  const Row theta = theta_of(fit_theta(seen));
  const double best = residual(rows, theta);
  for (int t = 0; t < 4; ++t)
    for (double step : {-0.05, -0.002, 0.002, 0.05}) {
      Row moved = theta;
      moved[t] = std::max(0.0, moved[t] + step * std::max(moved[t], 0.01));
      EXPECT_GE(residual(rows, moved), best * (1 - 1e-9));
    }
}

// 2 us decide at 20 us and not at 500: the error that is minimised is relative, so scaling one time
// and its features changes nothing.
TEST(Fit, IsOnTheRelativeError) {
  std::vector<Observation> seen;
  for (int i = 1; i <= 6; ++i) seen.push_back({{i, 0, 0}, 20.0f});
  seen.push_back({{100, 0, 0}, 500.0f});
  const Row theta = theta_of(fit_theta(seen));
  const std::vector<Row> rows = rows_of(seen);
  // The absolute optimum would lie near theta = (17, 4.8): check that ours is relatively better
  // than that one.
  EXPECT_LT(residual(rows, theta), residual(rows, {17, 4.8, 0, 0}));
}

TEST(Fit, CollinearTermsGiveTheFewestTermsAndSaySo) {
  std::vector<Observation> seen;
  for (int i = 1; i <= 10; ++i)
    seen.push_back({{1, 10 * i, 8}, 6.0f + i});  // waves and experts never change
  const Fit fit = fit_theta(seen);
  EXPECT_EQ(fit.rank, 2);
  EXPECT_GT(fit.condition, 1e9);
  EXPECT_NEAR(fit.theta.fixed, 6, 1e-4);
  EXPECT_NEAR(fit.theta.tile, 0.1, 1e-6);
  EXPECT_EQ(fit.theta.wave, 0);
  EXPECT_EQ(fit.theta.expert, 0);
}

TEST(Fit, EqualLoadsGiveAConstant) {
  const std::vector<Observation> seen(8, Observation{{3, 40, 8}, 12.0f});
  const Fit fit = fit_theta(seen);
  EXPECT_EQ(fit.rank, 1);
  EXPECT_NEAR(predict_us(fit.theta, {3, 40, 8}), 12, 1e-4);
  EXPECT_NEAR(fit.theta.fixed, 12, 1e-4);
}

TEST(Fit, TheSameObservationsGiveTheSameBits) {
  const std::vector<Observation> seen = observations({5, 2, 0.02f, 0.3f}, 0.1, 200, 3);
  const Fit a = fit_theta(seen), b = fit_theta(seen);
  EXPECT_EQ(theta_of(a), theta_of(b));
}

TEST(Fit, RefusesTooFewAndImpossibleTimes) {
  std::vector<Observation> seen = observations({5, 2, 0.02f, 0.3f}, 0, kMinObservations, 3);
  EXPECT_NO_THROW(fit_theta(seen));
  seen[2].us = 0;
  EXPECT_THROW(fit_theta(seen), Error);
  seen[2].us = INFINITY;
  EXPECT_THROW(fit_theta(seen), Error);
  seen.pop_back();
  try {
    fit_theta(seen);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("got 4"), std::string::npos) << e.what();
  }
}

// Section 3.1: non-negativity makes each prediction grow with every n_e.
TEST(CostModel, PredictionsGrowWithEveryCount) {
  Random random(5);
  const Grid grids[] = {
      {{{8, 4, 132}}, 1}, {{{24, 9, 100}}, 1}, {{{16, 8, 132}, {32, 28, 264}}, 2}};
  for (int trial = 0; trial < 3000; ++trial) {
    const Grid& grid = grids[trial % 3];
    const Theta theta{random.uniform_float(), random.uniform_float(), random.uniform_float(),
                      random.uniform_float()};
    int load[12];
    for (int& n : load) n = static_cast<int>(random.below(200)) * static_cast<int>(random.below(2));
    const Features before = features(grid, load, 12);
    load[random.below(12)] += 1 + static_cast<int>(random.below(40));
    const Features after = features(grid, load, 12);
    EXPECT_GE(after.tiles, before.tiles);
    EXPECT_GE(after.waves, before.waves);
    EXPECT_GE(after.active, before.active);
    EXPECT_GE(predict_us(theta, after), predict_us(theta, before));
  }
}

TEST(CostModel, TheOrderOfTheExpertsDoesNotMatter) {
  Random random(6);
  const Grid grid{{{16, 8, 132}, {32, 28, 264}}, 2};
  std::vector<int> load(20);
  for (int& n : load) n = static_cast<int>(random.below(90));
  const Features sorted = features(grid, load.data(), 20);
  for (int trial = 0; trial < 100; ++trial) {
    random.shuffle(load);
    const Features f = features(grid, load.data(), 20);
    EXPECT_TRUE(f.tiles == sorted.tiles && f.waves == sorted.waves && f.active == sorted.active);
  }
}

TEST(FitCandidates, SayWhyThereIsNoFit) {
  MeasuredSpace space = synthetic_space();
  for (size_t l = 4; l < space.loads.size(); ++l) space.samples[3][l].clear();
  const std::vector<CandidateFit> fits =
      fit_candidates(make_lesson(space, Role::kTrain, Half::kBoth));
  EXPECT_FALSE(fits[3].fitted);
  EXPECT_NE(fits[3].why_not.find("4 training loads"), std::string::npos) << fits[3].why_not;
  EXPECT_TRUE(fits[2].fitted);
}

// Times that follow one line for small passes and another for large ones.
TEST(FitOfSizes, PredictsWhereItsMenuRuns) {
  const auto time = [](const Candidate& c, const std::vector<int>& load) {
    int pairs = 0;
    for (const int n : load) pairs += n;
    return eq3_time(c, load) * (pairs > 200 ? 2 : 1);
  };
  const MeasuredSpace space = synthetic_space({}, time);
  const Lesson lesson = make_lesson(space, Role::kTrain, Half::kBoth);
  const auto whole = fit_candidates(lesson), small = fit_candidates_of_sizes(lesson, whole, 0, 48),
             all = fit_candidates_of_sizes(lesson, whole, 0, std::numeric_limits<int>::max()),
             none = fit_candidates_of_sizes(lesson, whole, 5000, 6000);
  for (size_t c = 0; c < small.size(); ++c) {
    ASSERT_TRUE(small[c].fitted);
    EXPECT_LT(small[c].fit.median_error, 0.01);
    EXPECT_GT(whole[c].fit.median_error, small[c].fit.median_error);
    EXPECT_EQ(all[c].fit.theta.fixed, whole[c].fit.theta.fixed);
    EXPECT_EQ(none[c].fit.observations, whole[c].fit.observations)
        << "nothing near: the fit on all";
  }
}

}  // namespace
}  // namespace ramp
