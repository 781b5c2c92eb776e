// SPDX-License-Identifier: Apache-2.0
// A plan: everything a layer needs to choose and run, and a person needs to judge it
// (docs/plan-format.md).  One JSON file, portable, without executable content: entries are named by
// their knobs, and the code comes from the program.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "choice/fit.hpp"
#include "choice/menu.hpp"
#include "choice/select.hpp"

namespace ramp {

struct PlanEntry {
  std::string label;
  std::string knobs;  // one JSON object of numbers, words and truth values
  Grid grid;
  Theta theta;
  int registers = 0;        // a thread; 0 where unknown
  int smem_bytes = 0;       // a block; 0 where unknown
  int observations = 0;     // loads that theta was fitted on
  double median_error = 0;  // of the fit on these
};

// Which entry a batch-size table tuned on this menu would run: not used to run anything, kept so
// that `plan explain` can say what the choice changes.
struct PlanTableRow {
  int tokens = 0;
  int entry = 0;
};

// 0 and empty where unknown.
struct PlanGpu {
  std::string name;  // as the driver says it
  int cc_major = 0, cc_minor = 0;
  int sms = 0;
  long long memory_bytes = 0;
};

// What to expect, measured on passes that nothing was fitted on.  NaN (null in the file) where it
// was not measured.
struct PlanQuality {
  int test_passes = 0;
  double median_error = kUnknown;      // |predicted / measured - 1|
  double rank_correlation = kUnknown;  // per load, median over loads of large passes
  double rank_of_two_runs = kUnknown;  // the same between two halves of the samples
  double gap = kUnknown;  // to exhaustive search over the full space, 0.01 = 1 % slower
  double speedup_over_fixed = kUnknown;
  double speedup_over_vllm = kUnknown;
  double menu_loss = kUnknown;  // of the menu against the full space, on the training passes
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
};

struct PlanProvenance {
  std::string routing;       // "recorded: ..." or "generated: ..."
  std::string measurements;  // hash of the measured space
  std::string measured_on;   // date
  std::string driver, toolkit, how;
  std::string sources;  // hash of the device code that was measured
  std::string commit;   // of the program that measured
  std::string planned_on, planned_by;
};

struct SizedPlan;

struct Plan {
  std::string model, layout;
  int gpus = 1;
  std::string mode = "fast";  // or "ordered"
  LocalShape shape;
  PlanGpu gpu;
  std::string occupancy;
  std::vector<PlanEntry> menu;
  std::vector<PlanTableRow> batch_table;  // ascending tokens, maybe empty
  PlanQuality quality;
  PlanProvenance provenance;
  // Other menus for smaller passes, ascending; everything above is for the passes that remain.
  std::vector<SizedPlan> smaller;

  // Filled in by reading and writing.
  std::string identity;               // hash of everything above
  bool edited = false;                // the file's identity does not match its content
  std::vector<std::string> warnings;  // fields that this program does not know, ...
};

// A whole plan of the same layer, for passes of up to so many tokens; it has no smaller ones
// itself.
struct SizedPlan {
  int up_to = 0;
  Plan plan;
};

// The part of a plan that a pass of so many tokens runs.
const Plan& plan_for(const Plan& plan, int tokens);

// Calls f(up_to, part) for every part, small passes first; up_to is 0 for the last, which has no
// limit.
template <class F>
void for_each_part(const Plan& plan, const F& f);

// The GPU that a plan is for, with all its parts.
void set_gpu(Plan& plan, const PlanGpu& gpu);

// Everything that can be checked without a GPU; throws Error with a JSON pointer.
void check_plan(const Plan& plan);

// "128 x 8 / 132 + 128 x 8 / 132": rows x columns of tiles / slots, phase after phase.
std::string grid_words(const Grid& grid);

// What select() evaluates.
std::vector<MenuEntry> menu_of(const Plan& plan);

// The plan of a menu; the caller adds quality and what it knows of the GPU.  Throws Error when an
// entry has no fit.
Plan make_plan(const MeasuredSpace& space, const GreedyMenu& menu,
               const std::vector<CandidateFit>& fits);
// fits: of each menu.
Plan make_plan(const MeasuredSpace& space, const std::vector<SizedMenu>& menus,
               const std::vector<std::vector<CandidateFit>>& fits);

// Hash of what was measured, whatever file it came from.
std::string space_hash(const MeasuredSpace& space);

struct ReadPlanOptions {
  bool allow_edited = false;  // load it all the same, with Plan::edited set
};

// Text in, text out.  parse_plan throws Error for anything that is not a whole, legal plan of a
// version that this program knows.
Plan parse_plan(std::string_view text, const ReadPlanOptions& options = {});
std::string plan_text(const Plan& plan);

Plan read_plan(const std::string& path, const ReadPlanOptions& options = {});
// Checks, then writes a temporary file, fsyncs and renames it; sets the identity.
void write_plan(const std::string& path, Plan& plan);

template <class F>
void for_each_part(const Plan& plan, const F& f) {
  for (const SizedPlan& sized : plan.smaller) f(sized.up_to, sized.plan);
  f(0, plan);
}

}  // namespace ramp
