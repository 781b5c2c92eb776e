// SPDX-License-Identifier: Apache-2.0
#include "choice/plan_export.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "choice/batch_table.hpp"
#include "choice/select.hpp"
#include "choice/tune.hpp"
#include "tests/choice/lessons.hpp"
#include "tests/choice/synthetic.hpp"

namespace ramp {
namespace {

// The synthetic candidates as those of a kernel that has vLLM's knobs.
MeasuredSpace foreign() {
  MeasuredSpace space = synthetic_space({.skew = 1.5, .noise = 0.01});
  for (Candidate& c : space.candidates) {
    const Phase& phase = c.grid.phase[0];
    c.knobs = fmt::format(
        R"({{"BLOCK_SIZE_M":{},"BLOCK_SIZE_N":128,"BLOCK_SIZE_K":128,"GROUP_SIZE_M":{},"num_warps":4,"num_stages":3,"mine":1}})",
        phase.rows, phase.col_tiles);
    c.occupancy.clear();
  }
  return space;
}

Plan plan_of(const MeasuredSpace& space) {
  Plan plan = tune_from(space, {.entries = 6, .menus = 2});
  plan.gpu.name = "NVIDIA H200";
  return plan;
}

TEST(PlanExport, ATableHoldsWhatIsFastestByPredictionForTheSlowestGpu) {
  const MeasuredSpace space = foreign();
  const Plan plan = plan_of(space);
  const std::vector<SizePick> picks = picks_by_size(plan, space, -1);
  ASSERT_GT(picks.size(), 5u);
  for (const SizePick& pick : picks) {
    const Plan& part = plan_for(plan, pick.tokens);
    std::vector<double> sum(part.menu.size());
    int passes = 0;
    for (const MeasuredPass& pass : space.passes) {
      if (pass.role == Role::kUniform ||
          kVllmBatchSizes[nearest_key(kVllmBatchSizes, pass.tokens)] != pick.tokens)
        continue;
      ++passes;
      for (size_t e = 0; e < part.menu.size(); ++e) {
        float slowest = 0;
        for (int load : pass.load_of_gpu)
          if (load >= 0)
            slowest = std::max(slowest, select(space.loads[load], menu_of(part)).predicted_us[e]);
        sum[e] += std::log(slowest);
      }
    }
    EXPECT_EQ(pick.passes, passes);
    const auto best = std::min_element(sum.begin(), sum.end()) - sum.begin();
    EXPECT_EQ(pick.entry->label, part.menu[best].label);
    EXPECT_NEAR(pick.predicted_us, std::exp(sum[best] / passes), 1e-3 * pick.predicted_us);
  }
}

TEST(PlanExport, AGpuOfItsOwnIsAskedOnItsOwnLoads) {
  MeasuredSpace space = foreign();
  const Plan plan = plan_of(space);
  const auto two = picks_by_size(plan, space, 2);
  for (MeasuredPass& pass : space.passes)  // as if the others had got nothing
    for (size_t g = 0; g < pass.load_of_gpu.size(); ++g)
      if (g != 2) pass.load_of_gpu[g] = -1;
  const auto alone = picks_by_size(plan, space, -1);
  ASSERT_EQ(two.size(), alone.size());
  for (size_t i = 0; i < two.size(); ++i) EXPECT_EQ(two[i].entry, alone[i].entry);
  EXPECT_THROW(picks_by_size(plan, space, 3), Error) << "it has no pass";
}

TEST(PlanExport, FormatsHaveTheirKnobsInOrderAndNoOthers) {
  const MeasuredSpace space = foreign();
  const Plan plan = plan_of(space);
  const auto picks = picks_by_size(plan, space, -1);
  const auto table = exported_table(export_format("vllm"), picks);
  EXPECT_EQ(table.begin().key(), std::to_string(picks[0].tokens));
  std::vector<std::string> names;
  for (const auto& [name, value] : table.begin().value().items()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K",
                                             "GROUP_SIZE_M", "num_warps", "num_stages"}));
  try {
    exported_table(export_format("deepgemm"), picks);
    ADD_FAILURE() << "they have no expected_m";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("expected_m of "), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("knobs"), std::string::npos) << e.what();
  }
  PlanEntry entry{"dg", R"({"expected_m":48})", {}};
  EXPECT_EQ(exported_entry(export_format("deepgemm"), entry).dump(), R"({"expected_m":48})");
  entry.knobs = R"({"stages":2,"warp_n":8,"block_n":32,"block_m":24})";
  EXPECT_EQ(exported_entry(export_format("alpha-moe"), entry).dump(),
            R"({"block_m":24,"block_n":32,"warp_n":8,"stages":2})");
  entry.knobs = R"({"expected_m":"many"})";
  EXPECT_THROW(exported_entry(export_format("deepgemm"), entry), Error);
  EXPECT_THROW(export_format("cutlass"), Error);
}

// The names that the kernels' own look-ups make of a layer.
TEST(PlanExport, FilesAreNamedAsTheirReadersLookForThem) {
  Plan plan;
  plan.shape = {.experts = 8, .top_k = 8, .hidden = 7168, .intermediate = 2048};
  plan.gpu.name = "NVIDIA H200";
  const auto name = [&](const char* format, const char* dtype, const char* block) {
    return export_format(format).file_name(plan, dtype, block);
  };
  EXPECT_EQ(name("vllm", "fp8_w8a8", "128,128"),
            "E=8,N=2048,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json");
  EXPECT_EQ(name("vllm", "", ""), "E=8,N=2048,device_name=NVIDIA_H200.json");
  EXPECT_EQ(name("alpha-moe", "", ""), "moe_jit_8_4096_7168.json");
  plan.gpu.name = "NVIDIA H100 80GB HBM3";
  EXPECT_EQ(name("vllm", "", ""), "E=8,N=2048,device_name=NVIDIA_H100_80GB_HBM3.json");
  plan.gpu.name = "NVIDIA H200 NVL";
  EXPECT_EQ(name("vllm", "", ""), "E=8,N=2048,device_name=NVIDIA_H200.json");
  plan.gpu.name.clear();
  EXPECT_THROW(name("vllm", "", ""), Error);
}

TEST(PlanExport, TrafficOfAnotherShapeIsRefused) {
  const MeasuredSpace space = foreign();
  const Plan plan = plan_of(space);
  MeasuredSpace other = space;
  other.shape.experts = 4;
  EXPECT_THROW(picks_by_size(plan, other, -1), Error);
  other = space;
  other.passes.clear();
  EXPECT_THROW(picks_by_size(plan, other, -1), Error);
}

TEST(AsShipped, RunsWhatTheOwnerSaysOfTheNearestSize) {
  MeasuredSpace space = foreign();
  EXPECT_THROW(learned(kShippedPolicy, space), Error) << "nobody said";
  space.shipped = {{16, space.candidates[3].label}, {512, space.candidates[7].label}};
  const auto policy = learned(kShippedPolicy, space);
  EXPECT_EQ(policy->choose({1, space.loads[0], {}}), 3);
  EXPECT_EQ(policy->choose({200, space.loads[0], {}}), 3);
  EXPECT_EQ(policy->choose({4096, space.loads[0], {}}), 7);
  const Evaluation evaluation = evaluate(space, {.resamples = 1});
  EXPECT_EQ(evaluation.scores[0].name, kShippedPolicy);
  EXPECT_TRUE(evaluation.scores[0].unavailable.empty()) << evaluation.scores[0].unavailable;
  EXPECT_EQ(evaluation.scores.size(), policy_kinds().size() + 1);
  space.shipped[0].label = "of nobody";
  EXPECT_THROW(check_space(space), Error);
}

}  // namespace
}  // namespace ramp
