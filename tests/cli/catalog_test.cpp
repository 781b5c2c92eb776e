// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run_program.hpp"
#include "tests/problem/small_trace.hpp"

namespace ramp {
namespace {

using nlohmann::json;

TEST(CatalogVerb, ListsModelsAndGpusForPeopleAndMachines) {
  const ProgramRun table = run_ramp("catalog");
  EXPECT_EQ(table.code, 0);
  EXPECT_NE(table.out.find("qwen3-30b"), std::string::npos);
  EXPECT_NE(table.out.find("routing only"), std::string::npos);
  const json out = json::parse(run_ramp("catalog --json").out);
  EXPECT_EQ(out["models"].size(), 14u);
  EXPECT_EQ(out["gpus"][0]["sms"], 132);
}

TEST(CatalogVerb, ShowsWhatALayoutLeavesOnEachGpu) {
  const json out = json::parse(run_ramp("catalog qwen15 --layout ep8 --json").out);
  ASSERT_EQ(out["gpus"].size(), 8u);
  EXPECT_EQ(out["gpus"][3]["experts"], 8);
  EXPECT_EQ(out["gpus"][4]["experts"], 7);
  const ProgramRun refused = run_ramp("catalog qwen15 --layout tp2");
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("scale block"), std::string::npos) << refused.err;
}

TEST(CatalogVerb, ReadsAConfigAndTakesWhatItLacks) {
  TestFolder folder;
  write_bytes(folder / "config.json",
              R"({"model_type":"mine","num_experts":32,"num_experts_per_tok":4,
      "hidden_size":1024,"num_hidden_layers":12})");
  const std::string config = (folder / "config.json").string();
  const ProgramRun lacking = run_ramp("catalog --config " + config);
  EXPECT_EQ(lacking.code, 1);
  EXPECT_NE(lacking.err.find("--inter"), std::string::npos) << lacking.err;
  const json out =
      json::parse(run_ramp("catalog --config " + config + " --inter 512 --layout tp4 --json").out);
  EXPECT_EQ(out["name"], "mine");
  EXPECT_EQ(out["gpus"][0]["intermediate"], 128);
  EXPECT_EQ(out["moe_layers"], 12);
  EXPECT_EQ(
      json::parse(run_ramp("catalog --E 8 --k 2 --hidden 256 --inter 128 --json").out)["experts"],
      8);
}

TEST(CatalogVerb, RefusesAnUnknownModelWithTheListAndABadFlagWithCode2) {
  const ProgramRun unknown = run_ramp("catalog gpt5");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("olmoe"), std::string::npos);
  EXPECT_EQ(run_ramp("catalog --nonsense").code, 2);
  const ProgramRun help = run_ramp("catalog --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("Example"), std::string::npos);
}

}  // namespace
}  // namespace ramp
