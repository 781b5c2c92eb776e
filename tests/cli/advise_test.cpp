// SPDX-License-Identifier: Apache-2.0
// `ramp advise` on the measurements that the repository ships.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/cli/choice_program.hpp"

namespace ramp {
namespace {

const std::string kOlmoe = std::string(RAMP_SOURCE_DIR) + "/data/h200/olmoe-ep8.rmeas";

nlohmann::json advice(const std::string& arguments) {
  const Said said = ramp_says("advise " + arguments + " --json");
  EXPECT_EQ(said.code, 0) << said.err;
  return said.code == 0 ? said.json() : nlohmann::json();
}

TEST(AdviseVerb, ExhaustiveOverItselfGainsNothingAndIsNotWorthIt) {
  const auto document = advice(kOlmoe + " --present exhaustive --choice exhaustive");
  EXPECT_EQ(document.at("all").at("gain").get<double>(), 0);
  EXPECT_EQ(document.at("all").at("saved_us_a_step").get<double>(), 0);
  for (const auto& range : document.at("ranges"))
    EXPECT_NE(range.at("worth_it"), nlohmann::json(true)) << range;
  const Said said = ramp_says("advise " + kOlmoe + " --present exhaustive --choice exhaustive");
  EXPECT_NE(said.out.find("not worth it here"), std::string::npos) << said.out;
  EXPECT_EQ(said.out.find("  worth it\n"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("nothing can serve it"), std::string::npos) << said.out;
}

TEST(AdviseVerb, TheCostModelOverAFixedConfigurationIsWorthItAndTheReverseIsNot) {
  const auto there = advice(kOlmoe + " --present fixed --choice cost-model").at("all");
  EXPECT_EQ(there.at("verdict"), "worth it");
  EXPECT_GT(there.at("gain_interval")[0].get<double>(), 0.05);
  const auto back = advice(kOlmoe + " --present cost-model --choice fixed").at("all");
  EXPECT_EQ(back.at("verdict"), "not worth it here: slower");
  EXPECT_NEAR(there.at("saved_us_a_step").get<double>(), -back.at("saved_us_a_step").get<double>(),
              1e-6);
}

TEST(AdviseVerb, SaysWhatEvalSays) {
  const auto ours = advice(kOlmoe + " --present vllm-tuning --choice cost-model").at("all");
  const Said eval = ramp_says("eval " + kOlmoe + " --policies cost-model --json");
  ASSERT_EQ(eval.code, 0) << eval.err;
  const double speedup = eval.json().at("policies")[0].at("all").at("speedup").get<double>();
  EXPECT_NEAR(1 / (1 - ours.at("gain").get<double>()), speedup, 1e-9);
}

TEST(AdviseVerb, RangesAddUpAndNothingBeatsTheBoundByMuch) {
  const auto document = advice(kOlmoe);
  const auto all = document.at("all");
  int passes = 0;
  double saved = 0;
  for (const auto& range : document.at("ranges")) {
    const int here = range.at("passes");
    passes += here;
    if (here == 0) continue;
    saved += here * range.at("saved_us_a_step").get<double>();
    EXPECT_GT(range.at("choice_us").get<double>(), 0.97 * range.at("exhaustive_us").get<double>());
    EXPECT_LE(range.at("gain_interval")[0].get<double>(), range.at("gain").get<double>() + 1e-12);
    EXPECT_EQ(here < 5, range.at("verdict") == "too few passes to say") << range;
  }
  EXPECT_EQ(passes, all.at("passes").get<int>());
  EXPECT_NEAR(saved / passes, all.at("saved_us_a_step").get<double>(), 1e-6);
  EXPECT_NEAR(all.at("saved_us_a_step").get<double>(),
              16 * (all.at("present_us").get<double>() - all.at("choice_us").get<double>()), 1e-6);
  EXPECT_EQ(document.at("layers"), 16);
  EXPECT_EQ(document.at("simulated"), false);
}

TEST(AdviseVerb, SaysWhereAndWhenItWasMeasuredAndThatExpertsAreAPart) {
  const Said said = ramp_says("advise " + kOlmoe);
  ASSERT_EQ(said.code, 0) << said.err;
  for (const char* part : {"NVIDIA H200 on 2026-", "16 MoE layers (catalog)", "us a step saved",
                           "Routing is generated", "Experts are only a part of a step"})
    EXPECT_NE(said.out.find(part), std::string::npos) << part << "\n" << said.out;
  const Said recorded =
      ramp_says("advise " + std::string(RAMP_SOURCE_DIR) + "/data/h200/dsv2-lite-ep8.rmeas");
  EXPECT_EQ(recorded.out.find("Routing is generated"), std::string::npos) << recorded.out;
  EXPECT_EQ(recorded.out.find("SIMULATED"), std::string::npos) << recorded.out;
}

TEST(AdviseVerb, AModelThatTheCatalogDoesNotKnowNeedsLayersAndSimulatedTimesAreCalledThat) {
  const Said unknown = ramp_says("advise " + synthetic_measurements());
  ASSERT_EQ(unknown.code, 0) << unknown.err;
  EXPECT_NE(unknown.out.find("--layers N"), std::string::npos) << unknown.out;
  EXPECT_NE(unknown.out.find("saved us a layer"), std::string::npos) << unknown.out;
  EXPECT_NE(unknown.out.find("SIMULATED times: no verdict"), std::string::npos) << unknown.out;
  EXPECT_TRUE(advice(synthetic_measurements()).at("all").at("saved_us_a_step").is_null());
  const auto one = advice(synthetic_measurements() + " --layers 1").at("all"),
             ten = advice(synthetic_measurements() + " --layers 10").at("all");
  EXPECT_NEAR(10 * one.at("saved_us_a_step").get<double>(), ten.at("saved_us_a_step").get<double>(),
              1e-6);
}

TEST(AdviseVerb, RefusesWithTheStepThatMendsIt) {
  const Said unknown = ramp_says("advise " + kOlmoe + " --choice crystal-ball");
  EXPECT_EQ(unknown.code, 1);
  for (const char* part : {"--choice", "crystal-ball", "cost-model-menus", "vllm-tuning"})
    EXPECT_NE(unknown.err.find(part), std::string::npos) << part << "\n" << unknown.err;
  const std::string recorded_only = folder().at("no_uniform.rmeas");
  save_measurements(synthetic_space({.uniform_passes = false}), recorded_only);
  const Said unlearned = ramp_says("advise " + recorded_only);
  EXPECT_EQ(unlearned.code, 1);
  EXPECT_NE(unlearned.err.find("--present"), std::string::npos) << unlearned.err;
  EXPECT_NE(unlearned.err.find("ramp eval"), std::string::npos) << unlearned.err;
  EXPECT_EQ(ramp_says("advise " + kOlmoe + " --layers 0").code, 2);
}

}  // namespace
}  // namespace ramp
