// SPDX-License-Identifier: Apache-2.0
// A kernel that is not ramp's, from its table of times to the table that it reads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/choice_program.hpp"

namespace ramp {
namespace {

const std::string kTable = std::string(RAMP_SOURCE_DIR) + "/tests/data/foreign.csv";

const std::string& imported() {
  static const std::string path = [] {
    const std::string out = folder().at("foreign.rmeas");
    const Said said = ramp_says("profile import " + kTable + " -o " + out);
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_NE(said.out.find("8 configurations on 66 loads, 528 cells"), std::string::npos)
        << said.out;
    return out;
  }();
  return path;
}

const std::string& foreign_plan() {
  static const std::string path = [] {
    const std::string out = folder().at("foreign.plan.json");
    const Said said = ramp_says("plan make " + imported() + " --menu 8 -o " + out);
    EXPECT_EQ(said.code, 0) << said.err;
    return out;
  }();
  return path;
}

TEST(ForeignKernel, ItsTimesServeEveryVerbThatReadsMeasurements) {
  const Said eval = ramp_says("eval " + imported());
  ASSERT_EQ(eval.code, 0) << eval.err;
  for (const char* part : {"as-shipped", "cost-model", "SIMULATED", "made up, in the form of"})
    EXPECT_NE(eval.out.find(part), std::string::npos) << part << eval.out;
  for (const std::string& verb :
       {"fit " + imported(), "advise " + imported() + " --present as-shipped",
        "report " + imported() + " -o " + folder().at("foreign.html"),
        "plan show " + foreign_plan(), "plan verify " + foreign_plan(),
        "plan explain " + foreign_plan() + " --load 6,18,50,39,11,20,36,7 --tokens 128"}) {
    const Said said = ramp_says(verb);
    EXPECT_EQ(said.code, 0) << verb << said.err;
  }
  const auto json = ramp_says("eval " + imported() + " --json --baseline as-shipped").json();
  EXPECT_EQ(json.at("policies")[0].at("name"), "as-shipped");
  EXPECT_DOUBLE_EQ(json.at("policies")[0].at("all").at("speedup").get<double>(), 1);
  EXPECT_EQ(json.at("provenance").at("gpus"), 8);
  EXPECT_EQ(json.at("provenance").at("kernel"), "made up, in the form of a Triton MoE kernel");
  EXPECT_GE(json.at("passes").at("test").get<int>(), 10);
}

TEST(ForeignKernel, WhatItRunsByItselfStandsBesideTheChoice) {
  const Said said = ramp_says("paper foreign --json " + imported());
  ASSERT_EQ(said.code, 0) << said.err;
  const auto rows = said.json().at("rows");
  ASSERT_EQ(rows.size(), 4u) << "the file, and its three sizes";
  const auto& cells = rows[0].at("cells");
  const auto value = [&](int cell) { return cells[cell].at("ours").at("value").get<double>(); };
  EXPECT_GE(value(5), value(3) * 0.995) << "exhaustive search is at least as fast as the choice";
  EXPECT_NEAR(value(6), value(3) / value(2), 0.01) << "over the tuned table, over shipped";
  const Said two = ramp_says("paper foreign " + imported() + " " + imported());
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_NE(two.out.find("geometric mean"), std::string::npos) << two.out;
  EXPECT_NE(two.out.find("SIMULATED"), std::string::npos) << two.out;
}

TEST(ForeignKernel, VllmGetsATableForAllGpusOrOneForEach) {
  const std::string
      tuned = folder().at("tuned"),
      name = "/E=8,N=1024,device_name=simulated,dtype=fp8_w8a8,block_shape=[128,128].json";
  const std::string command =
      "plan export " + foreign_plan() + " --for vllm --traffic " + imported();
  const Said said = ramp_says(command + " -o " + tuned);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("3 sizes"), std::string::npos) << said.out;
  const auto table = nlohmann::json::parse(text_of_file(tuned + name));
  ASSERT_EQ(table.size(), 3u);
  for (const char* tokens : {"128", "512", "2048"}) {
    ASSERT_TRUE(table.contains(tokens));
    EXPECT_EQ(table[tokens].size(), 6u);
    EXPECT_EQ(table[tokens]["BLOCK_SIZE_K"], 128);
  }
  EXPECT_EQ(ramp_says(command).json(), table) << "without a folder it is printed";
  EXPECT_NE(said.err.find("fewer than 128 tokens"), std::string::npos) << said.err;
  const Said each = ramp_says(command + " --each-gpu -o " + tuned);
  ASSERT_EQ(each.code, 0) << each.err;
  const auto own = nlohmann::json::parse(text_of_file(tuned + "/gpu6" + name));
  EXPECT_TRUE(own.contains("128")) << own;
  EXPECT_EQ(ramp_says(command + " --each-gpu").json().at("gpu6"), own);
}

TEST(ForeignKernel, WhoKnowsTheLoadAsksForIt) {
  const Said said = ramp_says("plan export " + foreign_plan() +
                              " --for vllm --tokens 128 --load 6,18,50,39,11,20,36,7");
  ASSERT_EQ(said.code, 0) << said.err;
  const auto line = said.json();
  EXPECT_EQ(line.at("tokens"), 128);
  EXPECT_EQ(line.at("vllm").size(), 6u);
  const auto explained = ramp_says("plan explain --json " + foreign_plan() +
                                   " --tokens 128 --load 6,18,50,39,11,20,36,7")
                             .json()[0];
  EXPECT_EQ(explained.at("ranked")[0].at("label"), line.at("configuration"));
}

// expected_m is what DeepGEMM's masked GEMM is told, and all that is chosen there.
TEST(ForeignKernel, ExpectedMIsChosenForALoad) {
  std::string table =
      "# kernel: masked GEMM\n# gpu: simulated\n# model: m\n# layout: ep2\n# gpus: 2\n# top_k: 2\n"
      "# hidden: 1024\n# intermediate: 512\nconfig,grid,knobs,load,us\n";
  for (const int rows : {16, 64})
    for (int n = 4; n <= 128; n *= 2)
      for (int active = 1; active <= 4; ++active) {
        std::string load;
        int tiles = 0;
        for (int e = 0; e < 4; ++e) {
          load += (e ? " " : "") + std::to_string(e < active ? n : 0);
          tiles += e < active ? (n + rows - 1) / rows : 0;
        }
        table += fmt::format("m{},{}x8x132,expected_m={},{},{}\n", rows, rows, rows, load,
                             5 + tiles * (rows == 16 ? 1.0 : 1.8) + active);
      }
  const std::string csv = folder().at("dg.csv"), rmeas = folder().at("dg.rmeas"),
                    plan = folder().at("dg.plan.json");
  std::ofstream(csv) << table;
  ASSERT_EQ(ramp_says("profile import " + csv + " -o " + rmeas).code, 0);
  const Said made = ramp_says("plan make " + rmeas + " --menu 2 --menus 1 -o " + plan);
  ASSERT_EQ(made.code, 0) << made.err;
  const auto expected_m = [&](const std::string& load) {
    const Said said = ramp_says("plan export " + plan + " --for deepgemm --load " + load);
    EXPECT_EQ(said.code, 0) << said.err;
    return said.json().at("deepgemm").at("expected_m").get<int>();
  };
  EXPECT_EQ(expected_m("8,8,4,4"), 16);
  EXPECT_EQ(expected_m("120,100,128,128"), 64);
  EXPECT_EQ(ramp_says("plan export " + plan + " --for deepgemm --traffic " + rmeas).code, 0);
  const Said other = ramp_says("plan export " + plan + " --for vllm --traffic " + rmeas);
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("BLOCK_SIZE_M of "), std::string::npos) << other.err;
}

TEST(ForeignKernel, RefusesWithTheStepThatMendsItAndLeavesNothingBehind) {
  const std::string bad = folder().at("bad.csv"), out = folder().at("bad.rmeas");
  std::ofstream(bad) << text_of_file(kTable) << "m64-n128-g32-w4-s3,,,128,train,new,9,d,1 2 3,4\n";
  const Said said = ramp_says("profile import " + bad + " -o " + out);
  EXPECT_EQ(said.code, 1);
  EXPECT_NE(said.err.find("bad.csv:547"), std::string::npos) << said.err;
  EXPECT_NE(said.err.find("3 counts"), std::string::npos) << said.err;
  for (const auto& entry : std::filesystem::directory_iterator(folder().at("")))
    EXPECT_EQ(entry.path().filename().string().find("bad.rmeas"), std::string::npos) << entry;
  const std::string plan = "plan export " + foreign_plan();
  EXPECT_NE(ramp_says(plan + " --for triton --load 1").err.find("alpha-moe"), std::string::npos);
  EXPECT_NE(ramp_says(plan + " --for vllm").err.find("--traffic FILE"), std::string::npos);
  EXPECT_EQ(ramp_says(plan + " --for vllm --load 1,2,3").code, 1);
  EXPECT_EQ(ramp_says(plan + " --for vllm --load 6,18,50,39,11,20,36,7 -o x").code, 1);
  EXPECT_EQ(
      ramp_says(plan + " --for vllm --traffic " RAMP_SOURCE_DIR "/data/h200/qwen3-30b-ep8.rmeas")
          .code,
      1);
}

}  // namespace
}  // namespace ramp
