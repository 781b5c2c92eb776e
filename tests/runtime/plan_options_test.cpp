// SPDX-License-Identifier: Apache-2.0
// A plan becomes a layer's options, or is refused with the plan's value and the value here.
#include "runtime/plan_options.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.hpp"
#include "kernels/device_code.hpp"
#include "tests/runtime/plan_example.hpp"

namespace ramp {
namespace {

PlanUse use_here() {
  PlanUse use;
  use.experts = 128;
  use.first_expert = 16;
  return use;
}

gpu::DeviceInfo h200() {
  gpu::DeviceInfo info;
  info.name = "NVIDIA H200";
  info.cc_major = 9;
  info.cc_minor = 0;
  info.sms = 132;
  return info;
}

std::string refusal(const Plan& plan, const PlanUse& use) {
  try {
    options_from_plan(plan, use);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

void expect_says(const std::string& said, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(said.find(part), std::string::npos) << part << ": " << said;
}

TEST(OptionsFromPlan, AreThePlansMenuAndShapeAtTheCallersPlace) {
  const Plan plan = example_plan();
  const LayerOptions o = options_from_plan(plan, use_here());
  EXPECT_EQ(o.experts, 128);
  EXPECT_EQ(o.first_expert, 16);
  EXPECT_EQ(o.shape.intermediate, 768);
  ASSERT_EQ(o.menu.size(), plan.menu.size());
  for (std::size_t i = 0; i < o.menu.size(); ++i) {
    EXPECT_EQ(ffn_label(o.menu[i]), plan.menu[i].label);
    EXPECT_EQ(o.theta[i].wave, plan.menu[i].theta.wave);
  }
}

TEST(OptionsFromPlan, AreOnesForEveryPart) {
  Plan plan = example_plan();
  plan.smaller.push_back({32, example_plan(1)});
  const std::vector<SizedOptions> all = all_options_from_plan(plan, use_here());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].up_to, 32);
  EXPECT_EQ(all[0].options.menu.size(), 1u);
  EXPECT_EQ(all[0].options.first_expert, 16);
  EXPECT_EQ(all[1].up_to, 0);
  EXPECT_EQ(all[1].options.menu.size(), 3u);

  plan.smaller[0].plan.menu[0].grid.phase[0].col_tiles = 3;
  try {
    all_options_from_plan(plan, use_here());
    FAIL();
  } catch (const Error& e) {
    expect_says(e.what(), {"up to 32 tokens", "/menu/0/grid"});
  }
}

TEST(OptionsFromPlan, SurviveTheFile) {
  Plan plan = example_plan();
  const Plan back = parse_plan(plan_text(plan));
  EXPECT_EQ(refusal(back, use_here()), "");
  EXPECT_EQ(options_from_plan(back, use_here()).theta[2].expert, plan.menu[2].theta.expert);
}

TEST(OptionsFromPlan, AnotherShapeIsRefusedWithBothValues) {
  PlanUse use = use_here();
  use.shape = LocalShape{16, 8, 2048, 768};
  EXPECT_EQ(refusal(example_plan(), use), "");
  use.shape = LocalShape{16, 8, 2048, 1024};
  expect_says(refusal(example_plan(), use), {"/shape/intermediate", "768", "1024"});
  use.shape = LocalShape{8, 8, 2048, 768};
  expect_says(refusal(example_plan(), use), {"/shape/experts", "16", "8"});
  use.shape = LocalShape{16, 6, 2048, 768};
  expect_says(refusal(example_plan(), use), {"/shape/top_k", "8", "6"});
  use.shape = LocalShape{16, 8, 4096, 768};
  expect_says(refusal(example_plan(), use), {"/shape/hidden", "2048", "4096"});
}

TEST(OptionsFromPlan, AnotherGpuIsRefusedWithBothValuesUnlessAllowed) {
  PlanUse use = use_here();
  use.device = h200();
  EXPECT_EQ(refusal(example_plan(), use), "");
  use.device->name = "NVIDIA H100 80GB HBM3";
  expect_says(refusal(example_plan(), use), {"/gpu/name", "NVIDIA H200", "NVIDIA H100 80GB HBM3"});
  use.foreign_gpu = true;
  EXPECT_EQ(refusal(example_plan(), use), "");
  use = use_here();
  use.device = h200();
  use.device->sms = 114;
  expect_says(refusal(example_plan(), use), {"/gpu/sms", "132", "114"});
  use.device = h200();
  use.device->cc_major = 10;
  expect_says(refusal(example_plan(), use), {"/gpu/compute_capability", "9.0", "10.0"});
}

TEST(OptionsFromPlan, AGridThatIsNotTheConfigurationsIsRefused) {
  Plan plan = example_plan();
  plan.menu[1].grid.phase[0].col_tiles = 3;
  expect_says(refusal(plan, use_here()), {"/menu/1/grid", "3 column tiles", "6 column tiles"});
}

TEST(OptionsFromPlan, KnobsOfAnotherFamilyAreRefusedAtTheirEntry) {
  Plan plan = example_plan();
  plan.menu[2].knobs = R"({"family":"triton","BLOCK_M":16})";
  expect_says(refusal(plan, use_here()), {"/menu/2", "triton", "f1"});
}

TEST(OptionsFromPlan, OrderedSumsAskForEntriesThatKeepOneOrder) {
  Plan plan = example_plan();
  plan.mode = "ordered";
  expect_says(refusal(plan, use_here()), {"menu/0", "f1-", "f3", "--mode ordered"});
  plan.menu.resize(1);
  const FfnConfig two_phases = ffn_from_label("f3-r64-c256-s4-w1-dynamic");
  PlanEntry& entry = plan.menu[0];
  entry.label = ffn_label(two_phases), entry.knobs = ffn_knobs(two_phases);
  entry.grid = ffn_grid(two_phases, plan.shape.hidden, plan.shape.intermediate, 132);
  EXPECT_EQ(refusal(plan, use_here()), "");
  EXPECT_TRUE(options_from_plan(plan, use_here()).ordered);
  plan.mode = "fast";
  EXPECT_FALSE(options_from_plan(plan, use_here()).ordered);
}

TEST(OptionsFromPlan, ModelsWhoseExpertsDoNotRunAreRefused) {
  Plan plan = example_plan();
  plan.model = "gptoss-20b";
  expect_says(refusal(plan, use_here()), {"gptoss-20b", "biases"});
}

TEST(OptionsFromPlan, AShareThatTheModelDoesNotHaveIsRefused) {
  PlanUse use = use_here();
  use.first_expert = 120;
  expect_says(refusal(example_plan(), use), {"first_expert", "120"});
  use = use_here();
  use.expert_map.assign(128, -1);
  use.expert_map[5] = 16;
  expect_says(refusal(example_plan(), use), {"expert_map/5", "16"});
}

TEST(Staleness, OtherDeviceCodeOrAnEditedFileIsSaid) {
  Plan plan = example_plan();
  EXPECT_EQ(plan_staleness(plan), "") << "nothing is known of what was measured";
  plan.provenance.sources = device_sources_hash();
  EXPECT_EQ(plan_staleness(plan), "");
  plan.provenance.sources = "xxh3-128:00000000000000000000000000000000";
  expect_says(plan_staleness(plan), {"xxh3-128:0000", "ramp tune"});
  plan.edited = true;
  expect_says(plan_staleness(plan), {"edited"});
}

}  // namespace
}  // namespace ramp
