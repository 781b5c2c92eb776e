// SPDX-License-Identifier: Apache-2.0
#include "choice/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace ramp {
namespace {

constexpr double kWorthIt = 1.01;

double menu_speedup_over(const MeasuredSpace& space, const MenuOptions& menu,
                         std::string_view baseline, double* gap) {
  EvaluateOptions options;
  options.policies = {std::string(kMenusPolicy)};
  options.policy.menu = menu;
  options.baseline = baseline;
  options.resamples = 1;  // no interval is kept
  const Evaluation evaluation = evaluate(space, options);
  if (gap) *gap = evaluation.scores[0].all.gap;
  return evaluation.scores[0].all.speedup;
}

}  // namespace

Plan tune_from(const MeasuredSpace& space, const MenuOptions& options) {
  check_space(space);
  const Lesson lesson = make_lesson_of_all_sizes(space);
  const std::vector<CandidateFit> fits = fit_candidates(lesson);
  // What can't be predicted can't be chosen between.
  Lesson fitted = lesson;
  std::erase_if(fitted.learnable, [&](int c) { return !fits[c].fitted; });
  bool is_one = false;
  for (size_t c = 0; c < fits.size(); ++c)
    if (fits[c].fitted)
      is_one = true;
    else
      std::fill(fitted.us[c].begin(), fitted.us[c].end(), std::numeric_limits<float>::infinity());
  if (!is_one)
    throw Error("measurements", fits.empty() ? "no configuration" : fits.front().why_not,
                fmt::format("a configuration that was timed on {} loads or more", kMinObservations),
                "run the same command again, or with more --minutes: what was measured is kept");
  const std::vector<SizedMenu> menus = menus_by_size(fitted, options);
  Plan plan = make_plan(space, menus, fits_of_menus(lesson, fits, menus));

  plan.quality.test_passes =
      static_cast<int>(std::count_if(space.passes.begin(), space.passes.end(),
                                     [](const auto& p) { return p.role == Role::kTest; }));
  if (plan.quality.test_passes == 0) return plan;
  const FitQuality quality = fit_quality(space);
  plan.quality.median_error = quality.median_error;
  plan.quality.rank_correlation =
      std::isnan(quality.rank_large) ? quality.rank_all : quality.rank_large;
  plan.quality.rank_of_two_runs =
      std::isnan(quality.twin_large) ? quality.twin_all : quality.twin_large;
  plan.quality.speedup_over_fixed =
      menu_speedup_over(space, options, kFixedPolicy, &plan.quality.gap);
  plan.quality.speedup_over_vllm = menu_speedup_over(space, options, kVllmPolicy, nullptr);
  return plan;
}

Verdict verdict(const Plan& plan) {
  const double speedup = plan.quality.speedup_over_fixed;
  if (std::isnan(speedup))
    return {false, false,
            "no held-out passes were timed, so nothing can be said of what the choice is worth"};
  const bool worth = speedup >= kWorthIt;
  const std::string figure =
      fmt::format("on {} held-out passes choosing is {:.3f}x the best single configuration",
                  plan.quality.test_passes, speedup);
  return {worth, true,
          worth ? "worth it: " + figure
                : "not worth it here: " + figure + ", within what two runs of one thing differ"};
}

}  // namespace ramp
