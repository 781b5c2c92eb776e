// SPDX-License-Identifier: Apache-2.0
// Claims that need no kernel: imbalance, placements, how large passes are.
#include <algorithm>

#include "lab/paper/claims.hpp"
#include "lab/paper/results.hpp"
#include "problem/calibration.hpp"
#include "problem/catalog.hpp"
#include "problem/pass_counts.hpp"

namespace ramp {

Report paper_figure4(const PaperRequest&);

namespace {

constexpr const char* kModel = "qwen3-30b";
constexpr double kPassMs = 5;  // about what the paper's Table 2 has for this model
constexpr int kPasses = 400;

// Of the passes of one loop; nothing but their sizes is looked at, so one layer does.
double large_share(GenerateOptions options, int large_batch) {
  options.model = find_model(kModel);
  options.calibration = find_calibration(kModel);
  options.domains = {"chat"};
  options.repeats = 1;
  options.passes = kPasses;
  options.stride = 4;
  options.burst_share = 0;
  options.layers = 1;
  options.pass_ms = kPassMs;
  const PassCounts counts = generated_counts(options);
  const auto large = std::count_if(counts.passes.begin(), counts.passes.end(),
                                   [&](const auto& pass) { return pass.tokens >= large_batch; });
  return static_cast<double>(large) / static_cast<double>(counts.passes.size());
}

}  // namespace

void answer_traffic(const ClaimInput& input, ClaimAnswers& answers) {
  const int large = input.request.large_batch;
  // Loops that serve as many requests each: one of n requests at once takes 1/n of the passes.
  double weighted = 0, weights = 0;
  for (const int concurrency : {16, 64, 256}) {
    GenerateOptions closed;
    closed.concurrency = {concurrency};
    weighted += large_share(closed, large) / concurrency;
    weights += 1.0 / concurrency;
  }
  answers["mix-recorded"] = {{weighted / weights}, "generated; as many requests in each loop"};
  std::vector<double> shares;
  for (const double rate : {8.0, 16.0, 32.0}) {
    GenerateOptions open;
    open.concurrency.clear();
    open.rates = {rate};
    shares.push_back(large_share(open, large));
  }
  answers["mix-open"] = {spanning(shares),
                         "generated, Poisson at 8, 16, 32 requests/s, 5 ms a pass"};

  const Report pass = paper_figure4(input.request);
  answers["pass-peak"] = {pass.rows[0].cells.back().ours, "generated; ramp paper figure4"};
  answers["pass-trough"] = {pass.rows[1].cells[1].ours, "generated; ramp paper figure4"};

  std::vector<double> lowered, rebalanced;
  for (const Calibration& calibration : calibrations()) {
    double contiguous = Number::kUnknown, offline = Number::kUnknown;
    for (const CalibrationScore& score : calibration_scores(calibration.model)) {
      if (score.table != "7" || score.paper == 0) continue;
      if (score.column == "contiguous") contiguous = score.generated;
      if (score.column == "offline") offline = score.generated;
      if (score.column == "every 128") rebalanced.push_back(score.generated);
    }
    lowered.push_back(contiguous - offline);
  }
  answers["placement-points"] = {{spanning(lowered).high}, "generated, fitted to the paper's"};
  answers["rebalanced"] = {spanning(rebalanced), "generated, fitted to the paper's"};
}

}  // namespace ramp
