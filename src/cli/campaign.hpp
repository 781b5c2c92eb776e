// SPDX-License-Identifier: Apache-2.0
// The profiling campaign as `ramp profile` and `ramp tune` run it: the same flags, the same
// progress on stderr.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.hpp"
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

// The `ramp profile` that does the same.
std::string profile_command(const CampaignFlags& flags);

// One of several campaigns that a verb runs, for what is said of it while it runs.
struct CampaignPlace {
  std::string title;  // "2/5 olmoe ep8"; empty: it is the only one
};

struct CampaignOutcome {
  CampaignReport report;
  std::string path;  // of the measurements
};

// Ctrl-C or a polite kill; the text has the command that goes on.
class CampaignInterrupted : public Error {
 public:
  using Error::Error;
};

// Runs until it is finished or its budget ends.  Throws CampaignInterrupted, and Error for what
// can't be measured.
CampaignOutcome run_campaign_of(const CampaignFlags& flags, const CampaignPlace& place = {});

nlohmann::json report_json(const CampaignOutcome& outcome);
std::string report_text(const CampaignOutcome& outcome);

}  // namespace ramp::cli
