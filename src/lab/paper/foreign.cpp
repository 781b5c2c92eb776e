// SPDX-License-Identifier: Apache-2.0
// The choice driving a kernel that is not ours: what it runs by itself, a table tuned at that batch
// size on uniform routing, our choice from the counts (over the menu that a plan would serve, and
// over all configurations), and exhaustive search.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "choice/batch_table.hpp"
#include "lab/paper/results.hpp"

namespace ramp {
namespace {

// A share of less than this says nothing: halves of the samples differ by as much.
constexpr double kLeastGain = 0.002;

// Speedups of one layout, or of some together.
struct Gains {
  OverLayouts tuned, served, whole, best;  // over what is shipped
  OverLayouts served_over_tuned, best_over_tuned;

  void add(const Evaluation& e, const PaperRequest& request) {
    const int least = request.large_batch;
    tuned.add(e, kShippedPolicy, kVllmPolicy, least);
    served.add(e, kShippedPolicy, kMenusPolicy, least);
    whole.add(e, kShippedPolicy, request.choice, least);
    best.add(e, kShippedPolicy, kOraclePolicy, least);
    served_over_tuned.add(e, kVllmPolicy, kMenusPolicy, least);
    best_over_tuned.add(e, kVllmPolicy, kOraclePolicy, least);
  }

  ReportRow row(const std::string& model, const std::string& layout, const std::string& scored,
                const PaperRequest& request) const {
    const Number ours = served_over_tuned.mean(request), bound = best_over_tuned.mean(request);
    Number share;
    if (std::log(bound.value) > kLeastGain)
      share.value = std::log(ours.value) / std::log(bound.value);
    const auto cell = [](const Number& number) { return ReportCell{"", number, {}, {}}; };
    return {{{model},
             {layout},
             cell(tuned.mean(request)),
             cell(served.mean(request)),
             cell(whole.mean(request)),
             cell(best.mean(request)),
             cell(ours),
             cell(bound),
             cell(share),
             {scored}},
            "",
            ""};
  }
};

// The nearest of vLLM's batch sizes: files have passes of every size, but not equally many.
int size_of(int tokens) { return kVllmBatchSizes[nearest_key(kVllmBatchSizes, tokens)]; }

// The evaluation of passes of about so many tokens alone: the others count as too small.
Evaluation of_size(Evaluation e, int size) {
  for (int& tokens : e.tokens)
    if (size_of(tokens) != size) tokens = 0;
  return e;
}

bool has_shipped(const MeasuredFile& file) { return !file.space.shipped.empty(); }

}  // namespace

Report paper_foreign(const PaperRequest& request) {
  Report report{"foreign",
                fmt::format("The choice driving a kernel that is not ramp's, passes of {} tokens "
                            "and more: speedups over what it runs by itself, and over its tuning",
                            request.large_batch),
                {{"model"},
                 {"layout"},
                 {"tuned on uniform routing", Unit::kTimes},
                 {std::string(kMenusPolicy), Unit::kTimes},
                 {request.choice, Unit::kTimes},
                 {"exhaustive", Unit::kTimes},
                 {std::string(kMenusPolicy) + " over tuned", Unit::kTimes},
                 {"exhaustive over tuned", Unit::kTimes},
                 {"share of that", Unit::kPercent},
                 {"scored on (large)"}},
                {},
                {},
                {},
                {}};
  const std::vector<MatchedRow> rows = match_rows({}, request.files, has_shipped);
  const auto evaluations =
      evaluate_rows(rows,
                    {std::string(kShippedPolicy), std::string(kVllmPolicy),
                     std::string(kMenusPolicy), request.choice, std::string(kOraclePolicy)},
                    request, report);
  std::map<std::string, std::string> kernels;  // once each, with what measured it
  std::map<std::string, Gains> by_layout;
  std::map<int, Gains> by_size;
  Gains all;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (!evaluations[r]) continue;
    const Evaluation& e = *evaluations[r];
    Gains own;
    own.add(e, request);
    by_layout[rows[r].layout].add(e, request);
    all.add(e, request);
    std::set<int> sizes;
    for (const int tokens : e.tokens)
      if (tokens >= request.large_batch) sizes.insert(size_of(tokens));
    for (const int size : sizes) by_size[size].add(of_size(e, size), request);
    report.rows.push_back(own.row(model_title(rows[r].model), layout_title(rows[r].layout),
                                  scored_on(*rows[r].file, e, request), request));
    const Provenance& p = rows[r].file->space.provenance;
    kernels[p.kernel.empty() ? "unnamed kernel" : p.kernel] = p.toolkit + ", " + p.sources;
  }
  const auto layouts = [](const Gains& gains) {
    const int files = gains.served.layouts();
    return fmt::format("{} file{}", files, files == 1 ? "" : "s");
  };
  const bool has_several = report.rows.size() > 1;
  if (by_size.size() > 1)
    for (const auto& [size, gains] : by_size)
      report.rows.push_back(
          gains.row("geometric mean", fmt::format("{} tokens", size), layouts(gains), request));
  if (has_several) {
    for (const auto& [layout, gains] : by_layout)
      report.rows.push_back(
          gains.row("geometric mean", layout_title(layout), layouts(gains), request));
    report.rows.push_back(all.row("geometric mean", "all", layouts(all), request));
  }
  for (const auto& [kernel, versions] : kernels)
    report.notes.push_back(fmt::format("{} ({}).", kernel, versions));
  if (report.rows.empty()) {
    ReportRow row{{{"another kernel"}}, kNotMeasured, "ramp profile import TABLE -o FILE.rmeas"};
    row.cells.resize(report.columns.size());
    row.cells.back().text = "needs a table that says what the kernel runs by itself";
    report.rows.push_back(std::move(row));
  }
  report.notes.push_back(
      "Tuned: one configuration a batch size on uniform routing, the same on every GPU "
      "(vllm-tuning). Every policy picks on one half of the samples and is timed on the other, "
      "exhaustive search too. Share: of the logarithms; none where exhaustive search gains less "
      "than 0.2 %. The paper's first version has 1.14x for Alpha-MoE over its own table.");
  return report;
}

}  // namespace ramp
