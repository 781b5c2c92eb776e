// SPDX-License-Identifier: Apache-2.0
// The profiling campaign: fills a store with times, cell by cell, within a budget; killed at any
// moment and started again it goes on, and ends with the same table.  What is measured in which
// order: lab/campaign_plan.hpp; how one configuration's crash stays its own:
// lab/isolated_timer.hpp; the rules of measuring: docs/measuring.md.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "lab/campaign_plan.hpp"
#include "lab/isolated_timer.hpp"
#include "lab/measurements.hpp"

namespace ramp {

struct CampaignOptions {
  PlanOptions plan;
  double minutes = 1;        // of this run, compilation apart; 0: until everything is measured
  int rounds = 3;            // samples of a cell
  int max_rounds = 9;        // where they spread by more than
  double max_spread = 0.02;  // this share of their median
  double batch_s = 0.7;      // of measuring between two commits: what a kill costs
  double cool_s = 2;         // pause when everything came throttled
  WorkerLimits worker;
};

struct CampaignProgress {
  std::string phase;  // "compiling", "checking", "anchors", "contenders", "random share"
  long long done = 0, planned = 0;   // configurations, or cells
  double elapsed_s = 0, left_s = 0;  // left: estimated; limited by the budget
  float sm_mhz = 0;                  // of the last batch
};

struct CampaignEvents {
  std::function<void(const CampaignProgress&)> progress;
  std::function<void(const std::string&)>
      note;  // one line: the plan of work, a quarantine, a pause
};

struct CampaignReport {
  enum class End { kFinished, kBudget, kInterrupted };
  End end = End::kFinished;
  int configs = 0, ok = 0, refused = 0, wrong = 0, quarantined = 0;
  int contenders = 0, anchors = 0, loads = 0, passes = 0;
  long long cells = 0, planned = 0;  // measured, of those that the plan has
  long long dropped = 0;             // throttled samples
  int deaths = 0;                    // of workers, in this run
  float sm_mhz = 0;                  // median
  double median_spread = 0;          // of the samples of a cell, of their median
  // How far the contenders can be trusted to hold the best: cells of the random share that were
  // faster than the best contender on their load, and by how much at most.
  long long drawn = 0, drawn_wins = 0;
  double worst_win = 0;
  double seconds = 0;  // measuring, this run
};

// workload.provenance names model, layout and routing.  Throws Error where nothing can be measured,
// the store belongs to something else, the disk is full or the clock stays throttled; what was
// stored before stays.
CampaignReport run_campaign(MeasurementStore& store, Workload workload, const Spawn& spawn,
                            const CampaignOptions& options, const CampaignEvents& events,
                            const std::atomic<bool>* interrupted);

std::string end_name(CampaignReport::End end);  // "finished", "budget", "interrupted"

}  // namespace ramp
