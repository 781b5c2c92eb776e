// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "choice/policy.hpp"
#include "tests/cli/choice_program.hpp"

namespace ramp {
namespace {

nlohmann::json row(const nlohmann::json& document, const std::string& name) {
  for (const auto& policy : document.at("policies"))
    if (policy.at("name") == name) return policy;
  ADD_FAILURE() << "no " << name;
  return {};
}

TEST(EvalVerb, ComparesEveryPolicy) {
  const Said said = ramp_says("eval " + synthetic_measurements());
  ASSERT_EQ(said.code, 0) << said.err;
  const std::string help = ramp_says("eval --help").out;
  for (const PolicyKind& kind : policy_kinds()) {
    EXPECT_NE(said.out.find("  " + kind.name + " "), std::string::npos) << said.out;
    EXPECT_NE(help.find(kind.name + " "), std::string::npos) << help;
    EXPECT_NE(help.find(kind.summary), std::string::npos) << help;
  }
  EXPECT_NE(said.out.find("SIMULATED"), std::string::npos);
  EXPECT_NE(said.out.find("Menu, greedy"), std::string::npos);
}

TEST(EvalVerb, JsonHoldsTheFiguresAndTheCostModelIsNearTheBound) {
  const Said said = ramp_says("eval " + synthetic_measurements() + " --json --menu 4");
  ASSERT_EQ(said.code, 0) << said.err;
  const auto document = said.json();
  EXPECT_LT(row(document, "cost-model").at("all").at("gap").get<double>(), 0.01);
  EXPECT_GT(row(document, "cost-model").at("all").at("speedup").get<double>(), 1.0);
  EXPECT_DOUBLE_EQ(row(document, "vllm-tuning").at("all").at("speedup").get<double>(), 1);
  EXPECT_GE(document.at("menus").size(), 1u);
  for (const auto& menu : document.at("menus")) EXPECT_LE(menu.at("entries").size(), 4u);
  EXPECT_TRUE(document.at("menus").back().at("up_to").is_null());
  EXPECT_EQ(document.at("passes").at("test"), 40);
  for (const auto& policy : document.at("policies")) {
    const auto& all = policy.at("all");
    EXPECT_LE(all.at("gap_interval")[0].get<double>(), all.at("gap").get<double>()) << policy;
    EXPECT_GE(all.at("gap_interval")[1].get<double>(), all.at("gap").get<double>()) << policy;
    EXPECT_EQ(policy.at("bytes").get<int>() == 0, policy.at("oracle").get<bool>()) << policy;
  }
  EXPECT_EQ(row(document, "gpu-table").at("sees"), "GPU's count");
}

TEST(EvalVerb, CrossScoresEachLayerByAFitOnTheOthers) {
  const std::string data = std::string(RAMP_SOURCE_DIR) + "/data/h200/";
  const Said said =
      ramp_says("eval --cross --json " + data + "olmoe-ep8.rmeas " + data + "qwen3-30b-ep8.rmeas");
  ASSERT_EQ(said.code, 0) << said.err;
  const auto layers = said.json().at("layers");
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].at("fitted_on"), nlohmann::json::array({"qwen3-30b ep8"}));
  EXPECT_LT(layers[0].at("policies").at("cost-model-cross").at("gap").get<double>(), 0.15);
  EXPECT_EQ(ramp_says("eval --cross " + data + "olmoe-ep8.rmeas").code, 1);
  EXPECT_EQ(ramp_says("eval " + data + "olmoe-ep8.rmeas " + data + "qwen3-30b-ep8.rmeas").code, 1);
}

TEST(EvalVerb, TakesTheTermsOfTheExtendedModel) {
  const std::string command =
      "eval " + synthetic_measurements() + " --json --policies cost-model-extended --terms ";
  const Said none = ramp_says(command + "none"), two = ramp_says(command + "reread,floor");
  ASSERT_EQ(none.code, 0) << none.err;
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_GT(row(two.json(), "cost-model-extended").at("bytes").get<int>(),
            row(none.json(), "cost-model-extended").at("bytes").get<int>());
  const Said unknown = ramp_says(command + "phase-of-the-moon");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("makespan"), std::string::npos) << unknown.err;
  EXPECT_EQ(ramp_says("eval " + synthetic_measurements() + " --baseline nobody").code, 1);
}

TEST(EvalVerb, TakesSomePoliciesAndAnotherBaseline) {
  const Said said = ramp_says("eval " + synthetic_measurements() +
                              " --policies cost-model,fixed --baseline fixed --json");
  ASSERT_EQ(said.code, 0) << said.err;
  ASSERT_EQ(said.json().at("policies").size(), 2u);
  EXPECT_DOUBLE_EQ(row(said.json(), "fixed").at("all").at("speedup").get<double>(), 1);
}

TEST(EvalVerb, TheSameCommandSaysTheSameThing) {
  const std::string command = "eval " + synthetic_measurements() + " --json";
  EXPECT_EQ(ramp_says(command).out, ramp_says(command).out);
}

TEST(EvalVerb, RefusesUnknownPoliciesAndMeasurementsWithoutHeldOutPasses) {
  const Said unknown = ramp_says("eval " + synthetic_measurements() + " --policies crystal-ball");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("crystal-ball"), std::string::npos);
  EXPECT_NE(unknown.err.find("cost-model"), std::string::npos);
  const std::string train_only = folder().at("train_only.rmeas");
  save_measurements(synthetic_space({.test_passes = 0}), train_only);
  const Said none = ramp_says("eval " + train_only);
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("test passes"), std::string::npos) << none.err;
  EXPECT_EQ(ramp_says("eval " + synthetic_measurements() + " --menu 99").code, 2);
}

}  // namespace
}  // namespace ramp
