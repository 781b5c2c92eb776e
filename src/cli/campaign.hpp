// SPDX-License-Identifier: Apache-2.0
// The profiling campaign as `ramp profile` and `ramp tune` run it: the same flags, the same
// progress on stderr.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/model_options.hpp"
#include "cli/placement_options.hpp"
#include "cli/test_traffic_options.hpp"
#include "lab/profile.hpp"

namespace ramp::cli {

struct CampaignFlags {
  ModelOptions model;
  std::string layout = "ep8";
  PlacementOptions placement;
  TestTrafficOptions test_traffic;
  std::string trace;     // a .rtrace, or
  std::string generate;  // "seed=1,passes=20,layers=8"
  int train = 160, test = 80, uniform = 1;
  std::string held_out, rows;
  std::string timer = "gpu";
  std::string output;  // empty: MODEL-LAYOUT.rmeas
  CampaignOptions options;
};

void add_campaign_flags(CLI::App& app, CampaignFlags& flags);

struct CampaignOutcome {
  CampaignReport report;
  std::string path;  // of the measurements
};

// Runs until it is finished or its budget ends.  Throws Error when it was interrupted, with the
// command that goes on.
CampaignOutcome run_campaign_of(const CampaignFlags& flags);

nlohmann::json report_json(const CampaignOutcome& outcome);
std::string report_text(const CampaignOutcome& outcome);

}  // namespace ramp::cli
