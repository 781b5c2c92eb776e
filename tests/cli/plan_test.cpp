// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/cli/choice_program.hpp"

namespace ramp {
namespace {

const std::string& made_plan() {
  static const std::string path = [] {
    const std::string out = folder().at("made.plan.json");
    const Said said =
        ramp_says("plan make " + synthetic_measurements() + " --menu 4 --menus 1 -o " + out);
    EXPECT_EQ(said.code, 0) << said.err;
    return out;
  }();
  return path;
}

TEST(PlanVerb, MakesShowsAndVerifies) {
  const Said show = ramp_says("plan show " + made_plan());
  ASSERT_EQ(show.code, 0) << show.err;
  for (const char* part :
       {"synthetic on ep8", "menu of 4", "gap to exhaustive", "verdict", "generated: test"})
    EXPECT_NE(show.out.find(part), std::string::npos) << show.out;
  const Said verify = ramp_says("plan verify " + made_plan());
  EXPECT_EQ(verify.code, 0) << verify.err;
  EXPECT_NE(verify.out.find("The plan is legal."), std::string::npos);
  EXPECT_EQ(ramp_says("plan show --json " + made_plan()).out, text_of_file(made_plan()));
  EXPECT_TRUE(ramp_says("plan verify --json " + made_plan()).json().at("ok").get<bool>());
}

TEST(PlanVerb, TheSameMeasurementsMakeTheSamePlan) {
  const std::string again = folder().at("again.plan.json");
  ASSERT_EQ(
      ramp_says("plan make " + synthetic_measurements() + " --menu 4 --menus 1 -o " + again).code,
      0);
  EXPECT_EQ(text_of_file(again), text_of_file(made_plan()));
}

TEST(PlanVerb, ExplainsWhichEntryRunsAndWhy) {
  const Said said = ramp_says("plan explain " + made_plan() + " --load 30,30,30,30,1,1,0,0");
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("122 pairs on 6 of 8 experts"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("runs"), std::string::npos);
  EXPECT_NE(said.out.find("batch-size table"), std::string::npos);
  const auto e =
      ramp_says("plan explain " + made_plan() + " --json --tokens 512 --load 30,30,30,30,1,1,0,0")
          .json()[0];
  ASSERT_EQ(e.at("ranked").size(), 4u);
  double last = 0;
  for (const auto& x : e.at("ranked")) {
    EXPECT_GE(x.at("predicted_us").get<double>(), last);
    last = x.at("predicted_us").get<double>();
    EXPECT_NEAR(x.at("fixed_us").get<double>() + x.at("waves_us").get<double>() +
                    x.at("tiles_us").get<double>() + x.at("experts_us").get<double>(),
                last, 1e-3);
  }
  EXPECT_EQ(e.at("entry"), e.at("ranked")[0].at("entry"));
  EXPECT_EQ(e.at("tokens"), 512);
}

TEST(PlanVerb, ExplainsEveryLineOfACountsFile) {
  const std::string counts = folder().at("counts.txt");
  std::ofstream(counts) << "# two loads\n8,8,8,8,8,8,8,8\n\n[100, 0, 0, 0, 0, 0, 0, 0]\n";
  const Said said = ramp_says("plan explain " + made_plan() + " --json --counts-file " + counts);
  ASSERT_EQ(said.code, 0) << said.err;
  ASSERT_EQ(said.json().size(), 2u);
  EXPECT_EQ(said.json()[1].at("pairs"), 100);
}

TEST(PlanVerb, OfOrderedModeHoldsEntriesThatKeepOneOrder) {
  const std::string path = folder().at("ordered.plan.json");
  const Said said = ramp_says(
      "plan make " RAMP_SOURCE_DIR "/data/h200/olmoe-ep8.rmeas --mode ordered --json -o " + path);
  ASSERT_EQ(said.code, 0) << said.err;
  const auto plan = nlohmann::json::parse(text_of_file(path));
  EXPECT_EQ(plan.at("mode"), "ordered");
  ASSERT_FALSE(plan.at("menu").empty());
  for (const auto& entry : plan.at("menu"))
    EXPECT_EQ(entry.at("label").get<std::string>().rfind("f3-", 0), 0u) << entry.at("label");
  const Said none =
      ramp_says("plan make " + synthetic_measurements() + " --mode ordered -o " + path);
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("family f3"), std::string::npos) << none.err;
}

TEST(PlanVerb, SaysWhichFieldOfAPlanIsWrong) {
  auto plan = nlohmann::json::parse(text_of_file(made_plan()));
  plan["menu"][2]["theta"]["tile_us"] = -1;
  const std::string broken = folder().at("broken.plan.json");
  std::ofstream(broken) << plan.dump(2);
  const Said said = ramp_says("plan verify " + broken);
  EXPECT_EQ(said.code, 1);
  EXPECT_NE(said.err.find("/menu/2/theta/tile_us"), std::string::npos) << said.err;
}

TEST(PlanVerb, AnEditedPlanIsRefusedUnlessAskedFor) {
  auto plan = nlohmann::json::parse(text_of_file(made_plan()));
  plan["menu"][0]["theta"]["fixed_us"] = 1;
  const std::string edited = folder().at("edited.plan.json");
  std::ofstream(edited) << plan.dump();
  const Said refused = ramp_says("plan show " + edited);
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("/identity"), std::string::npos) << refused.err;
  const Said allowed = ramp_says("plan show --allow-edited " + edited);
  EXPECT_EQ(allowed.code, 0);
  EXPECT_NE(allowed.out.find("EDITED"), std::string::npos);
  EXPECT_NE(allowed.err.find("warning"), std::string::npos);
  EXPECT_TRUE(
      ramp_says("plan verify --json --allow-edited " + edited).json().at("edited").get<bool>());
}

TEST(PlanVerb, RefusesLoadsThatAreNoneOfThisLayer) {
  for (const char* arguments : {"--load 1,2,3", "--load 8,8,x,8,8,8,8,8", "--load 8,8,-1,8,8,8,8,8",
                                "", "--load 8 --counts-file x"}) {
    const Said said = ramp_says("plan explain " + made_plan() + " " + arguments);
    EXPECT_EQ(said.code, 1) << arguments;
    EXPECT_NE(said.err.find("next:"), std::string::npos) << said.err;
  }
  EXPECT_EQ(ramp_says("plan").code, 2);
}

}  // namespace
}  // namespace ramp
