// SPDX-License-Identifier: Apache-2.0
// What the sections of a run's page are made of, found once; and the sections.  Only the run*.cpp
// of this folder include it.
#pragma once

#include <optional>

#include "choice/advise.hpp"
#include "choice/plan_times.hpp"
#include "choice/sizes.hpp"
#include "lab/page/run.hpp"

namespace ramp {

// A part that can't be found is empty, and its reason is there.
struct RunFindings {
  const RunRequest& asked;
  const MeasuredSpace& space;
  Coverage coverage;
  std::vector<SizeCoverage> sizes;
  std::string thin;
  FitQuality fit;
  std::optional<Evaluation> evaluation;
  std::string not_scored;
  std::optional<Advised> advised;
  std::string not_advised;
  std::optional<Plan> plan;
  std::string no_plan;
  std::optional<PlanTimes> plan_times;

  bool is_simulated() const;
  bool is_generated() const;
  // The device code is another one than this program's, and it is ours at all.
  bool is_stale() const;
};

RunFindings find(const RunRequest& request);

// A policy's gap, or what was chosen over what was best, on passes of least to most tokens.
struct GapOfSizes {
  int passes = 0;
  Number gap;                       // with its interval
  double slow_us = 0, fast_us = 0;  // mean over these passes
};
GapOfSizes gap_between(const std::vector<int>& tokens, const PassTimes& slow, const PassTimes& fast,
                       int least, int most, const EvaluateOptions& options);

// "17-381", "1", "382 and more".
std::string tokens_text(int least, int most);

// run_about.cpp
PageSection measured_section(const RunFindings& found);
PageSection coverage_section(const RunFindings& found);
PageSection again_section(const RunFindings& found);
// run_choice.cpp
PageSection policies_section(const RunFindings& found);
PageSection fit_section(const RunFindings& found);
PageSection winners_section(const RunFindings& found);
// run_plan.cpp
PageSection gains_section(const RunFindings& found);
PageSection plan_section(const RunFindings& found);
// run_layers.cpp; overall: the geometric mean of the fastest other layer over ours, for a headline
std::optional<PageSection> layers_section(const RunFindings& found, Number* over_peers);

// Cells of a report.
ReportCell text_cell(std::string text);
ReportCell number_cell(double value);
ReportCell number_cell(double value, const Interval& interval);

}  // namespace ramp
