// SPDX-License-Identifier: Apache-2.0
// The page of a run: what was measured, how choosing does on it, what the plan serves and whether
// it is worth it, for a person who must decide and one who must do it again.  It computes nothing
// of its own: `eval`, `fit`, `advise`, `plan` and `paper` say the same.
#pragma once

#include <optional>

#include "choice/plan.hpp"
#include "lab/measurements.hpp"
#include "lab/page/page.hpp"
#include "lab/paper/request.hpp"

namespace ramp {

struct RunRequest {
  MeasuredFile file;
  std::vector<TimedConfig> configs;  // the refused ones too
  CampaignRecord campaign;
  std::optional<Plan> plan;  // none: the one that `ramp plan make` would write
  std::string plan_path;
  std::string layer, peers;  // records (docs/measuring.md), by path; empty: none
  std::string present{kVllmPolicy}, choice{kMenusPolicy};
  int layers = 0;            // of the model, with routed experts; 0: unknown
  EvaluateOptions evaluate;  // menu, what is large, intervals
  std::string sources;       // hash of this program's device code: only the CLI sees kernels
  std::string program;       // "ramp 0.1.0 (4642ae73869d)"
  std::string today;
  std::string command;  // that makes this page again
};

Page run_page(const RunRequest& request);

}  // namespace ramp
