// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/cli/choice_program.hpp"

namespace ramp {
namespace {

TEST(FitVerb, WritesTheThetaThatWasPlanted) {
  const std::string out = folder().at("theta.json");
  const Said said = ramp_says("fit " + synthetic_measurements() + " -o " + out);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("16 of 16 configurations fitted"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("SIMULATED"), std::string::npos);
  EXPECT_NE(said.out.find("held-out passes"), std::string::npos);
  const auto document = nlohmann::json::parse(text_of_file(out));
  EXPECT_EQ(document.at("format"), "ramp-theta");
  ASSERT_EQ(document.at("fits").size(), 16u);
  for (const auto& fit : document.at("fits")) {
    for (const auto& term : fit.at("theta")) EXPECT_GE(term.get<double>(), 0);
    EXPECT_LT(fit.at("median_error").get<double>(), 0.02);
  }
}

TEST(FitVerb, JsonIsWhatTheFileHolds) {
  const std::string out = folder().at("theta2.json");
  const Said said = ramp_says("fit " + synthetic_measurements() + " --json -o " + out);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.json(), nlohmann::json::parse(text_of_file(out)));
  const auto quality = said.json().at("quality");
  EXPECT_TRUE(quality.at("held_out").get<bool>());
  EXPECT_GT(quality.at("rank_correlation").at("large").get<double>(), 0.9);
}

TEST(FitVerb, SaysWhatIsWrongAndWhatToDo) {
  const Said missing = ramp_says("fit " + folder().at("none.rmeas"));
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.err.find("none.rmeas"), std::string::npos) << missing.err;
  EXPECT_NE(missing.err.find("next:"), std::string::npos) << missing.err;
  EXPECT_EQ(ramp_says("fit").code, 2);
  const Said full = ramp_says("fit " + synthetic_measurements() + " -o /no/such/folder/theta.json");
  EXPECT_EQ(full.code, 1);
  EXPECT_NE(full.err.find("/no/such/folder/theta.json"), std::string::npos) << full.err;
}

TEST(FitVerb, HelpTeachesWithAnExample) {
  const Said said = ramp_says("fit --help");
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.out.find("ramp fit olmoe_ep8.rmeas"), std::string::npos);
}

}  // namespace
}  // namespace ramp
