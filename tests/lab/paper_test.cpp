// SPDX-License-Identifier: Apache-2.0
// The paper's results from planted times: what a row, a mean and a missing row say.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.hpp"
#include "lab/paper/compared.hpp"
#include "lab/paper/results.hpp"
#include "tests/choice/synthetic.hpp"

namespace ramp {
namespace {

MeasuredFile measured(const std::string& model, const std::string& layout,
                      const SyntheticOptions& options = {.skew = 1.5, .noise = 0.01}) {
  MeasuredFile file{model + "-" + layout + ".rmeas", synthetic_space(options)};
  file.space.provenance.model = model;
  file.space.provenance.layout = layout;
  return file;
}

PaperRequest request_of(std::vector<MeasuredFile> files) {
  PaperRequest request;
  request.files = std::move(files);
  request.resamples = 200;
  return request;
}

TEST(PaperRows, AFileFindsThePapersRowAndTheOthersStandBelow) {
  const std::vector<PaperRow> paper = paper_rows("3");
  const std::vector<MeasuredFile> files = {measured("olmoe", "ep8"), measured("dsv2-lite", "ep8"),
                                           measured("olmoe", "ep8+balanced"),
                                           measured("olmoe", "tp2")};
  const auto rows = match_rows(paper, files, is_contiguous_ep);
  ASSERT_EQ(rows.size(), paper.size() + 1);  // DeepSeek-V2-Lite is not in the paper
  int with_file = 0;
  for (const MatchedRow& row : rows) {
    with_file += row.file != nullptr;
    if (!row.file) continue;
    EXPECT_EQ(row.model, row.file->space.provenance.model);
  }
  EXPECT_EQ(with_file, 2);
  EXPECT_EQ(rows.back().model, "dsv2-lite");
  EXPECT_EQ(rows.back().paper, nullptr);
}

TEST(PaperRows, TwoFilesOfOneLayoutAreTwoRows) {
  const auto rows = match_rows(
      paper_rows("3"), {measured("olmoe", "ep8"), measured("olmoe", "ep8")}, is_contiguous_ep);
  EXPECT_EQ(rows.size(), paper_rows("3").size() + 1);
}

TEST(PaperNumbers, AreThoseThatItsTextDrawsFromItsTables) {
  double most_all = 0, most_large = 0, worst_gap = 0;
  int under_two = 0;
  for (const PaperRow& row : paper_rows("3")) {
    most_all = std::max(most_all, row.values[0]);
    most_large = std::max(most_large, row.values[1]);
    worst_gap = std::max(worst_gap, row.values[4]);
    under_two += row.values[4] <= 2;
  }
  EXPECT_DOUBLE_EQ(most_all, 1.27);
  EXPECT_DOUBLE_EQ(most_large, 1.45);
  EXPECT_DOUBLE_EQ(worst_gap, 3.5);
  EXPECT_EQ(under_two, 8);
  // Table 9: 1.06x over the table, 1.12x over vLLM's tuning, 20 of 21 layouts, faster on 18.
  std::vector<double> over_table, over_vllm;
  int matched = 0, faster = 0;
  for (const PaperRow& row : paper_rows("9")) {
    over_table.push_back(row.values[0]), over_vllm.push_back(row.values[2]);
    matched += row.values[0] >= 1, faster += row.values[2] > 1;
  }
  EXPECT_EQ(over_table.size(), 21u);
  EXPECT_NEAR(exp_mean_of(over_table), 1.06, 0.005);
  EXPECT_NEAR(exp_mean_of(over_vllm), 1.12, 0.005);
  EXPECT_EQ(matched, 20);
  EXPECT_EQ(faster, 18);
  for (const PaperRow& row : paper_rows("5")) {
    EXPECT_LE(row.values[5], row.values[4]) << row.model << row.layout;
    EXPECT_GE(row.values[6], row.values[4]) << row.model << row.layout;
  }
}

TEST(PaperTables, ARowHasOurFigureThePapersAndItsInterval) {
  const PaperRequest request = request_of({measured("olmoe", "ep8")});
  const Report report = paper_result("table3").make(request);
  const Evaluation direct = evaluate(request.files[0].space, {.baseline = "trace-table"});
  int measured_rows = 0;
  for (const ReportRow& row : report.rows) {
    if (row.cells[0].text != "OLMoE-1B-7B" || row.cells[1].text != "EP8") continue;
    ++measured_rows;
    const Number& over_trace = row.cells[4].ours;
    EXPECT_DOUBLE_EQ(over_trace.value, score_of(direct, "cost-model").all.speedup);
    EXPECT_LE(over_trace.low, over_trace.value);
    EXPECT_GE(over_trace.high, over_trace.value);
    EXPECT_DOUBLE_EQ(row.cells[2].paper.value, 1.05);
    EXPECT_DOUBLE_EQ(row.cells[6].ours.value, score_of(direct, "cost-model").all.gap);
    EXPECT_DOUBLE_EQ(row.cells[6].paper.value, 0.009);
    EXPECT_TRUE(row.why_not.empty());
  }
  EXPECT_EQ(measured_rows, 1);
  ASSERT_EQ(report.files.size(), 1u);
}

TEST(PaperTables, WhatIsNotMeasuredHasNoFigureAndACommand) {
  const Report report = paper_result("table9").make(request_of({measured("olmoe", "ep8")}));
  int missing = 0;
  for (const ReportRow& row : report.rows) {
    if (row.why_not.empty()) continue;
    ++missing;
    EXPECT_EQ(row.why_not, kNotMeasured);
    EXPECT_NE(row.next.find("ramp tune --model "), std::string::npos) << row.next;
    for (const ReportCell& cell : row.cells) EXPECT_FALSE(cell.ours.is_known());
  }
  EXPECT_EQ(missing, 20);
}

TEST(PaperTables, TheMeanCountsEveryLayoutOnceAndThePapersOverTheSameRows) {
  const PaperRequest request =
      request_of({measured("olmoe", "ep8"),
                  measured("qwen3-30b", "ep8", {.skew = 0.5, .noise = 0.01, .seed = 3})});
  const Report report = paper_result("table3").make(request);
  const ReportRow& mean = report.rows.back();
  ASSERT_EQ(mean.cells[0].text, "geometric mean");
  double logs = 0;
  int rows = 0;
  for (const ReportRow& row : report.rows)
    if (&row != &mean && row.cells[2].ours.is_known())
      logs += std::log(row.cells[2].ours.value), ++rows;
  ASSERT_EQ(rows, 2);
  EXPECT_NEAR(mean.cells[2].ours.value, std::exp(logs / 2), 1e-9);
  EXPECT_NEAR(mean.cells[2].paper.value, std::sqrt(1.05 * 1.10), 1e-9);
  EXPECT_NEAR(mean.cells[6].paper.value, std::sqrt(1.009 * 1.035) - 1, 1e-9);
}

TEST(PaperTables, AFileWithoutHeldOutPassesIsLeftOutAloud) {
  const Report report =
      paper_result("table3").make(request_of({measured("olmoe", "ep8", {.test_passes = 0})}));
  EXPECT_TRUE(report.files.empty());
  bool says = false;
  for (const std::string& note : report.notes)
    says |= note.find("olmoe-ep8.rmeas is left out") != std::string::npos;
  EXPECT_TRUE(says);
}

TEST(PaperTables, Table4RanksTheCostModelBeforeEveryTableWhereTimesFollowEq3) {
  const Report report = paper_result("table4").make(request_of({measured("olmoe", "ep8")}));
  double cost_model = NAN, best_table = INFINITY;
  for (const ReportRow& row : report.rows) {
    if (row.cells[0].text == "cost-model") cost_model = row.cells[2].ours.value;
    if (row.cells[0].text.starts_with("gpu-"))
      best_table = std::min(best_table, row.cells[2].ours.value);
    if (row.cells[0].text == "gpu-active") {
      EXPECT_DOUBLE_EQ(row.cells[2].paper.low, 0.033);
    }
  }
  EXPECT_LT(cost_model, best_table);
}

TEST(PaperTables, Table12ShowsTheEntriesAloneAndWhatTheCompilerSaysOfThemTogether) {
  PaperRequest request = request_of({measured("olmoe", "ep8")});
  int registers = 60;
  for (Candidate& c : request.files[0].space.candidates)
    c.registers = registers++, c.smem_bytes = 1024 * c.registers;
  std::vector<size_t> sizes;
  request.compile_menu = [&](const std::vector<Candidate>& menu) {
    sizes.push_back(menu.size());
    return MenuResources{99, 200 * 1024};
  };
  const Report report = paper_result("table12").make(request);
  ASSERT_EQ(report.rows.size(), 2u);
  ASSERT_EQ(sizes.size(), 2u);
  EXPECT_EQ(sizes[0], 3u);
  EXPECT_GT(sizes[1], 3u);
  for (const ReportRow& row : report.rows) {
    EXPECT_DOUBLE_EQ(row.cells[3].ours.value, 200);
    EXPECT_DOUBLE_EQ(row.cells[4].ours.value, 99);
    EXPECT_GE(row.cells[2].ours.low, 60);
    EXPECT_LT(row.cells[2].ours.high, registers);
  }
  request.compile_menu = nullptr;
  const Report uncompiled = paper_result("table12").make(request);
  EXPECT_EQ(uncompiled.rows[0].why_not, "not compiled here");
  EXPECT_TRUE(uncompiled.rows[0].cells[2].ours.is_known());
  EXPECT_FALSE(uncompiled.rows[0].cells[4].ours.is_known());
}

TEST(PaperTables, Table8PutsEachPlacementInItsColumn) {
  const PaperRequest request = request_of(
      {measured("olmoe", "ep8"), measured("olmoe", "ep8+balanced", {.skew = 0.2, .noise = 0.01})});
  const Report report = paper_result("table8").make(request);
  const ReportRow& olmoe = report.rows[0];
  ASSERT_EQ(olmoe.cells[0].text, "OLMoE-1B-7B");
  EXPECT_TRUE(olmoe.why_not.empty());
  for (const int speedup : {4, 5}) EXPECT_TRUE(olmoe.cells[speedup].ours.is_known());
  EXPECT_NE(olmoe.cells[4].ours.value, olmoe.cells[5].ours.value);
  EXPECT_LT(olmoe.cells[3].ours.value, olmoe.cells[2].ours.value);  // balancing helps
  EXPECT_EQ(report.rows[1].why_not, kNotMeasured);
}

const ReportRow& claim(const Report& report, std::string_view id) {
  const auto claims = paper_claims();
  for (size_t i = 0; i < claims.size(); ++i)
    if (claims[i].id == id) return report.rows.at(i);
  throw Error("claim", std::string(id), "one of the list", "");
}

TEST(PaperClaims, ATableMovedToAnotherDegreeIsScoredWhereAModelHasTwo) {
  const std::vector<MeasuredFile> two = {
      measured("olmoe", "ep8"),
      measured("olmoe", "ep16", {.gpus = 16, .skew = 1.5, .noise = 0.01, .seed = 2})};
  const Report both = paper_result("claims").make(request_of(two));
  const Number own = claim(both, "moved-own").cells[2].ours,
               other = claim(both, "moved-other").cells[2].ours;
  ASSERT_TRUE(own.is_known() && other.is_known());
  EXPECT_GT(other.value, own.value);  // a row of counts means other loads there
  EXPECT_NE(claim(both, "moved-other").cells[3].text.find("2 moves"), std::string::npos);

  const Report one = paper_result("claims").make(request_of({two[0]}));
  EXPECT_FALSE(claim(one, "moved-other").cells[2].ours.is_known());
  EXPECT_EQ(claim(one, "moved-other").why_not, kNotMeasured);
  EXPECT_EQ(claim(one, "configurations").cells[2].ours.value, 16);
}

TEST(PaperClaims, NamesAreUniqueAndEveryOneHasANumberAndAPlace) {
  std::set<std::string_view> ids;
  for (const PaperClaim& c : paper_claims()) {
    EXPECT_TRUE(ids.insert(c.id).second) << c.id;
    EXPECT_TRUE(c.number.is_known()) << c.id;
    EXPECT_FALSE(c.where.empty() || c.what.empty()) << c.id;
  }
}

TEST(PaperResults, AnUnknownOneIsRefusedWithTheList) {
  try {
    paper_result("table13");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("table3"), std::string::npos);
  }
}

TEST(HeldOut, IsADomainOrAnOpenLoopOrOtherRequests) {
  MeasuredSpace space = synthetic_space();
  EXPECT_EQ(held_out_of(space), "other requests");
  for (MeasuredPass& pass : space.passes)
    if (pass.role == Role::kTest) pass.domain = "code";
  EXPECT_EQ(held_out_of(space), "domain code");
  space.provenance.routing = "generated: x, seed 1; scored on open loops of 8 requests/s";
  EXPECT_EQ(held_out_of(space), "open loops of 8 requests/s");
}

}  // namespace
}  // namespace ramp
