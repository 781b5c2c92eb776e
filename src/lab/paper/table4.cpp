// SPDX-License-Identifier: Apache-2.0
// Table 4: policies that see what the cost model sees, without Eq. 3.
#include <fmt/format.h>

#include "lab/paper/compared.hpp"
#include "lab/paper/results.hpp"

namespace ramp {
namespace {

struct Keyed {
  const char* policy;
  const char* on;
};
// The paper's rows in its order, then those that it does not have there.
constexpr Keyed kPolicies[] = {
    {"gpu-table", "token count"},
    {"gpu-padding", "token count x padding (8 buckets)"},
    {"gpu-active", "token count x active experts (4 buckets)"},
    {"gpu-peak", "token count x largest load over mean (4)"},
    {"gpu-variation", "token count x coefficient of variation (4)"},
    {"gpu-3d", "token count x active experts x padding (quartiles)"},
    {"neighbors-8", "token count, active experts, padding, largest over mean"},
    {"tile-formula", "tiles and their logarithm, least squares"},
    {"cost-model", "the GPU's tokens per expert"},
    {"nearest-spectrum", "the GPU's sorted load, FlashInfer's"},
    {"cost-model-weighted", "ours: weighted where a configuration competes"},
    {"cost-model-extended", "ours: and with a further term"},
    {"cost-model-sized", "ours: Eq. 3, fitted a range of pass sizes"},
};

}  // namespace

Report paper_table4(const PaperRequest& request) {
  Report report{"table4",
                "Table 4: tables given the cost model's inputs; gap to exhaustive search in %, "
                "passes of 128 tokens and more, geometric mean over EP layouts",
                {{"policy"},
                 {"keyed on"},
                 {"gap", Unit::kPercent},
                 {"worst layout", Unit::kPercent},
                 {"all batches", Unit::kPercent}},
                {},
                {},
                {},
                {}};
  const std::string oracle(kOraclePolicy);
  std::vector<std::string> names = {oracle};
  for (const Keyed& keyed : kPolicies) names.push_back(keyed.policy);
  const std::vector<PaperRow> paper = paper_rows("4");
  const std::vector<MatchedRow> rows = match_rows({}, request.files, is_contiguous_ep);
  const auto evaluations = evaluate_rows(rows, names, request, report);
  for (const Keyed& keyed : kPolicies) {
    OverLayouts large, all;
    for (const auto& e : evaluations)
      if (e) {
        large.add(*e, keyed.policy, oracle, request.large_batch);
        all.add(*e, keyed.policy, oracle, 0);
      }
    ReportRow row{{{keyed.policy}, {keyed.on}, {}, {}, {}}, "", ""};
    row.cells[2].ours = minus_one(large.mean(request));
    row.cells[3].ours.value = large.worst() - 1;
    row.cells[4].ours = minus_one(all.mean(request));
    for (const PaperRow& p : paper)
      if (p.model == keyed.policy) {
        row.cells[2].paper = {p.values[0] / 100, p.values[2] / 100, p.values[3] / 100};
        row.cells[3].paper.value = p.values[1] / 100;
      }
    if (large.layouts() == 0) {
      row.why_not = kNotMeasured;
      row.next = tune_command("qwen3-30b", "ep8", "--held-out knowledge");
    }
    report.rows.push_back(std::move(row));
  }
  report.notes.push_back(fmt::format(
      "{} EP layouts here, 21 in the paper (18 for the tile formula). Brackets: 95 % bootstrap "
      "interval, passes drawn inside their layout.",
      report.files.size()));
  return report;
}

}  // namespace ramp
