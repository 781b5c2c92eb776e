// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/cli/choice_program.hpp"

namespace ramp {
namespace {

TEST(TuneVerb, GoesFromATraceToAPlanThatReads) {
  const std::string plan = folder().at("p.json");
  const Said said = ramp_says("tune --model dsv2-lite --layout ep8 --trace " RAMP_SOURCE_DIR
                              "/data/traces/dsv2lite_esft.rtrace --rows 3,12 --passes 16 --minutes "
                              "0 --timer simulated:noise=0.002 --menu 3 --measurements " +
                              folder().at("t.rmeas") + " -o " + plan + " --json");
  ASSERT_EQ(said.code, 0) << said.err;
  const auto json = said.json();
  EXPECT_EQ(json["plan"], plan);
  EXPECT_TRUE(json["simulated"]);
  EXPECT_LE(json["menu"].size(), 3u);
  EXPECT_GE(json["menu"].size(), 1u);
  EXPECT_EQ(json["profile"]["end"], "finished");
  EXPECT_EQ(json["quality"]["test_passes"], 8);
  EXPECT_TRUE(json["verdict"]["known"]);
  // Exhaustive search is scored on the same candidates, so nothing beats it by more than the noise.
  EXPECT_GT(json["quality"]["gap"].get<double>(), -0.01);
  const Said shown = ramp_says("plan show " + plan);
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("simulated"), std::string::npos);
}

TEST(TuneVerb, FromFinishedMeasurementsItMeasuresNothing) {
  const Said said =
      ramp_says("tune --from " + synthetic_measurements() + " -o " + folder().at("p.json"));
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("menu of "), std::string::npos);
  EXPECT_NE(said.out.find("worth it"), std::string::npos);
  EXPECT_EQ(said.out.find("planned cells"), std::string::npos);
}

TEST(TuneVerb, SaysNotWorthItWhereOneConfigurationIsBestEverywhere) {
  // One kernel twice as fast as the other on every load: choosing gains nothing.
  MeasuredSpace space = load_measurements(synthetic_measurements());
  for (std::size_t c = 0; c < space.candidates.size(); ++c)
    for (std::size_t l = 0; l < space.loads.size(); ++l)
      for (float& us : space.samples[c][l])
        us = static_cast<float>(10 + 0.01 * l) * (c == 0 ? 1.0f : 2.0f);
  const std::string file = folder().at("flat.rmeas");
  save_measurements(space, file);
  const Said said = ramp_says("tune --from " + file + " -o " + folder().at("p.json") + " --json");
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_FALSE(said.json()["verdict"]["worth_it"]);
  EXPECT_NE(said.json()["verdict"]["text"].get<std::string>().find("not worth it here"),
            std::string::npos);
}

TEST(TuneVerb, RefusesBothATraceAndMeasurements) {
  const Said said = ramp_says("tune --from a.rmeas --generate seed=1");
  EXPECT_EQ(said.code, 1);
  EXPECT_NE(said.err.find("--from"), std::string::npos);
  EXPECT_EQ(ramp_says("tune --from /no/such.rmeas").code, 1);
  EXPECT_EQ(ramp_says("tune --menu 99 --from a").code, 2);
}

}  // namespace
}  // namespace ramp
