// SPDX-License-Identifier: Apache-2.0
#include "choice/extended_model.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "choice/fit.hpp"
#include "choice/nnls.hpp"
#include "choice/spread.hpp"
#include "tests/choice/lessons.hpp"
#include "tests/choice/synthetic.hpp"

namespace ramp {
namespace {

const ExtraTerm& term(std::string_view name) {
  for (const ExtraTerm& t : extra_terms())
    if (t.name == name) return t;
  throw std::runtime_error("no such term");
}

// Largest relative error over the fitted candidates and the lesson's loads.
double worst_error(const ExtendedModel& model, const Lesson& lesson) {
  double worst = 0;
  for (size_t i = 0; i < model.fitted().size(); ++i)
    for (size_t l = 0; l < lesson.loads.size(); ++l)
      worst = std::max(
          worst,
          std::abs(model.predict_us(i, lesson.loads[l]) / lesson.us[model.fitted()[i]][l] - 1));
  return worst;
}

ExtendedModel fitted(const Lesson& lesson, const std::vector<std::string>& terms) {
  ExtendedModel model(terms);
  model.fit(lesson, lesson.learnable);
  return model;
}

TEST(ExtraTerms, CountWhatTheySay) {
  const Grid grid{{{8, 2, 3}}, 1};
  const std::vector<int> load = {17, 8, 3, 0};  // tiles of 8, 8, 1; 8; 3
  EXPECT_EQ(term("reread").count(grid, load), 1);
  EXPECT_EQ(term("reduced").count(grid, load), 28);
  EXPECT_EQ(term("ragged").count(grid, load), 2);
  // Items of 16, 16, 16, 16, 9, 9, 16, 16, 11, 11 on three slots, in this order.
  EXPECT_EQ(term("makespan").count(grid, load), 52);
  EXPECT_EQ(term("makespan").count(grid, std::vector<int>(4, 0)), 0);
}

// Times that hold a term: the model with it is exact, the one without it is not.
TEST(ExtendedModel, FindsThePlantedTerm) {
  for (const char* name : {"reread", "reduced", "ragged", "makespan"}) {
    SCOPED_TRACE(name);
    const double us = std::string_view(name) == "reduced" ? 0.05 : 0.5;
    const Lesson lesson = lesson_of(synthetic_space(
        {.skew = 1.5, .samples = 1}, [&](const Candidate& c, const std::vector<int>& load) {
          return eq3_time(c, load) + us * term(name).count(c.grid, load);
        }));
    EXPECT_LT(worst_error(fitted(lesson, {name}), lesson), 1e-4);
    EXPECT_GT(worst_error(fitted(lesson, {}), lesson), 1e-2);
  }
}

TEST(ExtendedModel, TheFloorIsTheLargerOfTwoSums) {
  const Lesson lesson = lesson_of(synthetic_space(
      {.skew = 1.5, .samples = 1}, [](const Candidate& c, const std::vector<int>& load) {
        const double active = spread_of(load, 8).active;
        return std::max(20 + 2.5 * active, eq3_time(c, load));
      }));
  // By turns, it need not end in the best split of the loads; it ends near it.
  const double with = worst_error(fitted(lesson, {"floor"}), lesson),
               without = worst_error(fitted(lesson, {}), lesson);
  EXPECT_LT(with, 0.08);
  EXPECT_LT(with, without / 2);
}

TEST(ExtendedModel, WithoutTermsItIsTheWeightedFit) {
  const MeasuredSpace space = synthetic_space({.noise = 0.03});
  const Lesson lesson = lesson_of(space);
  const ExtendedModel model = fitted(lesson, {});
  const auto fits = fit_candidates(lesson, lesson.learnable);
  for (size_t i = 0; i < model.fitted().size(); ++i)
    for (const auto& load : lesson.loads) {
      const int c = model.fitted()[i];
      const double us =
          predict_us(fits[c].fit.theta, features(lesson.candidates[c].grid, load.data(), 8));
      EXPECT_NEAR(model.predict_us(i, load), us, 1e-4 * us);
    }
}

TEST(ExtendedModel, RefusesTermsThatItDoesNotKnowOrKnowsTwice) {
  EXPECT_THROW(ExtendedModel({"phase-of-the-moon"}), Error);
  EXPECT_THROW(ExtendedModel({"reread", "reread"}), Error);
  EXPECT_NO_THROW(ExtendedModel{default_terms()});
}

TEST(ContenderWeight, FallsWithTheDistanceFromTheFastest) {
  EXPECT_DOUBLE_EQ(contender_weight(20, 20), 1);
  EXPECT_NEAR(contender_weight(22, 20), 0.25, 1e-12);
  EXPECT_NEAR(contender_weight(60, 20), 1 / 441.0, 1e-12);
  EXPECT_DOUBLE_EQ(contender_weight(19, 20), 1);  // faster than every rival
}

// Where one set of coefficients can't be right everywhere, the weighted fit is right where the
// configuration competes.
TEST(ContenderWeight, MovesTheErrorToWhereItDoesNotMatter) {
  const MeasuredSpace space =
      synthetic_space({.train_passes = 120}, [](const Candidate& c, const std::vector<int>& load) {
        const double us = eq3_time(c, load);
        return us + 0.004 * us * us;  // no Eq. 3
      });
  const Lesson lesson = lesson_of(space);
  const auto equal = fit_candidates(lesson), weighted = fit_candidates(lesson, lesson.learnable);
  double near[2] = {}, far[2] = {};
  for (size_t l = 0; l < lesson.loads.size(); ++l) {
    float best = INFINITY;
    for (const auto& row : lesson.us) best = std::min(best, row[l]);
    for (size_t c = 0; c < lesson.us.size(); ++c) {
      const Features f = features(lesson.candidates[c].grid, lesson.loads[l].data(), 8);
      const double slower = lesson.us[c][l] / best - 1;
      if (slower > 0.05 && slower < 0.5) continue;
      double* sum = slower <= 0.05 ? near : far;
      sum[0] += std::abs(predict_us(equal[c].fit.theta, f) / lesson.us[c][l] - 1);
      sum[1] += std::abs(predict_us(weighted[c].fit.theta, f) / lesson.us[c][l] - 1);
    }
  }
  EXPECT_LT(near[1], 0.8 * near[0]);
  EXPECT_GT(far[1], far[0]);
}

// Karush-Kuhn-Tucker: no coefficient is negative, the residual is orthogonal to those in use, and
// no other one would lower it.
TEST(Nnls, SolvesProblemsOfEveryWidth) {
  Random random(5);
  for (int columns = 1; columns <= kMaxNnlsColumns; ++columns) {
    NnlsProblem p{columns, {}, {}};
    for (int i = 0; i < 40; ++i) {
      for (int c = 0; c < columns; ++c) p.a.push_back(random.uniform());
      p.b.push_back(random.normal() + 1);
    }
    const NnlsSolution s = solve_nnls(p);
    EXPECT_EQ(s.rank, columns);
    std::vector<double> gradient(columns, 0);
    double residual = 0;
    for (int i = 0; i < 40; ++i) {
      double off = -p.b[i];
      for (int c = 0; c < columns; ++c) off += p.a[i * columns + c] * s.x[c];
      residual += off * off;
      for (int c = 0; c < columns; ++c) gradient[c] += off * p.a[i * columns + c];
    }
    EXPECT_NEAR(residual, s.residual, 1e-9);
    for (int c = 0; c < columns; ++c) {
      EXPECT_GE(s.x[c], 0);
      EXPECT_GE(gradient[c], -1e-9);
      if (s.x[c] > 0) {
        EXPECT_NEAR(gradient[c], 0, 1e-9);
      }
    }
  }
}

}  // namespace
}  // namespace ramp
