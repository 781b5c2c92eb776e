// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/claims.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lab/paper/compared.hpp"
#include "lab/paper/results.hpp"

namespace ramp {
namespace {

// What a claim without an answer needs.
struct Needs {
  const char* id;
  const char* what;
};
constexpr Needs kNeeds[] = {
    {"layer-total", "a side-by-side record with vLLM's Triton MoE: --peers FILE"},
    {"layer-kernel", "vLLM's Triton MoE, timed on the same passes"},
    {"choice-share", "vLLM's Triton MoE, timed on the same passes"},
    {"time-per-token", "a serving engine"},
    {"menu-3", "ramp bench layer olmoe --layout ep8 --forced all --menu A,B,C"},
    {"conditional-us", "conditional graph nodes; menus here are one kernel"},
    {"idle-blocks", "a grid of idle blocks; blocks here are persistent and take what there is"},
    {"moved-model", "measurements of two models"},
    {"mix-gain", "files that are scored on open loops of 32 requests/s"},
    {"regions", "measurements of an EP8 layout"},
    {"profiling", "wall-clock minutes, which measurement files don't hold"},
    {"alpha-moe", "Alpha-MoE's times, as a table for ramp profile import"},
    {"tp-trace", "ramp tune --model qwen3-30b --layout tp2 --generate seed=1 --minutes 2"},
    {"spread-large", "ramp tune --model qwen3-30b --layout ep32 --generate seed=1 --minutes 2"},
    {"moved-own", "two EP degrees of one model"},
    {"moved-other", "two EP degrees of one model"},
};

std::string needs_of(std::string_view id) {
  for (const Needs& needs : kNeeds)
    if (needs.id == id) return needs.what;
  return tune_command("qwen3-30b", "ep8");
}

}  // namespace

Number spanning(const std::vector<double>& values) {
  Number out;
  for (const double value : values)
    out.low = std::fmin(out.low, value), out.high = std::fmax(out.high, value);
  if (out.low == out.high) return {out.low};
  return out;
}

Report paper_claims_beside_ours(const PaperRequest& request) {
  Report report{"claims",
                "What the paper states in its text, beside ours",
                {{"claim"}, {"where"}, {"ours", Unit::kTimes}, {"how, or what it needs"}},
                {},
                {},
                {},
                {}};
  std::vector<MatchedRow> rows = match_rows({}, request.files, is_contiguous_ep);
  const auto evaluations =
      evaluate_rows(rows,
                    {std::string(kVllmPolicy), "trace-table", "gpu-table", "gpu-padding",
                     "gpu-active", "gpu-peak", "gpu-variation", "gpu-3d", "neighbors-8",
                     "tile-formula", "cost-model", request.choice, "menu-table",
                     std::string(kMenuPolicy), "menu-exhaustive", std::string(kOraclePolicy)},
                    request, report);
  ClaimInput input{request, {}, {}};
  for (size_t r = 0; r < rows.size(); ++r)
    if (evaluations[r])
      input.files.push_back(rows[r].file), input.evaluations.push_back(evaluations[r]);
  ClaimAnswers answers;
  for (const auto answer : {answer_choice, answer_menus, answer_moved, answer_cross, answer_winners,
                            answer_model, answer_kernel, answer_traffic})
    answer(input, answers);
  for (const PaperClaim& claim : paper_claims()) {
    const ClaimAnswer& answer = answers[std::string(claim.id)];
    ReportRow row{{{std::string(claim.what)},
                   {std::string(claim.where)},
                   {"", answer.ours, claim.number, claim.unit},
                   {answer.how}},
                  "",
                  ""};
    if (!answer.ours.is_known()) {
      row.why_not = kNotMeasured;
      row.cells[3].text = "needs " + needs_of(claim.id);
    }
    report.rows.push_back(std::move(row));
  }
  report.notes.push_back(fmt::format(
      "{} EP layouts here; a range goes from the least to the most of them.", input.files.size()));
  return report;
}

}  // namespace ramp
