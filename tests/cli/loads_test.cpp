// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/cli/run_program.hpp"
#include "tests/problem/small_trace.hpp"

namespace ramp {
namespace {

using nlohmann::json;

const std::string kTrace = std::string(RAMP_SOURCE_DIR) + "/data/traces/dsv2lite_esft.rtrace";

TEST(LoadsVerb, GivesEveryCountOfEveryGpu) {
  const ProgramRun run =
      run_ramp("loads " + kTrace + " --layout ep8 --train 40 --test 20 --role all --json");
  ASSERT_EQ(run.code, 0) << run.err;
  const json out = json::parse(run.out);
  EXPECT_EQ(out["gpus"], 8);
  EXPECT_EQ(out["passes"].size(), 40u + 20 + 18);
  for (const json& pass : out["passes"]) {
    long long pairs = 0;
    ASSERT_EQ(pass["counts"].size(), 8u);
    for (const json& gpu : pass["counts"]) {
      ASSERT_EQ(gpu.size(), 8u);
      for (const json& n : gpu) pairs += n.get<int>();
    }
    ASSERT_EQ(pairs, 6 * pass["tokens"].get<long long>());
  }
  EXPECT_NE(out["routing"].get<std::string>().find("recorded: deepseek-ai/ESFT"),
            std::string::npos);
}

TEST(LoadsVerb, PrintsTheTablesAndWhereTheRoutingComesFrom) {
  const ProgramRun run = run_ramp("loads " + kTrace + " --layout ep8 --train 40 --test 20");
  ASSERT_EQ(run.code, 0) << run.err;
  for (const char* text : {"64 experts on 8 GPUs", "recorded: deepseek-ai/ESFT", "held out",
                           "128 and more", "most and least loaded GPU"})
    EXPECT_NE(run.out.find(text), std::string::npos) << text;
}

TEST(LoadsVerb, TakesPlacementsTensorParallelismAndAHeldOutDomain) {
  const json balanced = json::parse(
      run_ramp("loads " + kTrace +
               " --layout ep8 --placement balanced --held-out law --train 20 --test 20 --json")
          .out);
  EXPECT_EQ(balanced["layout"], "ep8+balanced");
  for (const json& pass : balanced["passes"])
    EXPECT_EQ(pass["domain"] == "law", pass["role"] == "test");
  const json tp =
      json::parse(run_ramp("loads " + kTrace + " --layout tp11 --train 5 --test 5 --json").out);
  for (const json& pass : tp["passes"]) EXPECT_EQ(pass["counts"][0], pass["counts"][10]);
}

TEST(LoadsVerb, ReBalancesAndScoresOnOpenLoops) {
  const ProgramRun run = run_ramp("loads " + kTrace +
                                  " --layout ep8 --placement every-32 --replicas 16 --train 20 "
                                  "--test 20 --concurrency 64 --test-rate 8,32 --json");
  ASSERT_EQ(run.code, 0) << run.err;
  const json out = json::parse(run.out);
  EXPECT_EQ(out["layout"], "ep8+every32+replicas16");
  std::set<std::string> loops;
  for (const json& pass : out["passes"])
    if (pass["role"] == "test") loops.insert(pass["loop"]);
  EXPECT_EQ(loops, (std::set<std::string>{"open 8/s", "open 32/s"}));
}

TEST(LoadsVerb, RefusesWhatDoesNotFit) {
  EXPECT_EQ(run_ramp("loads " + kTrace + " --layout tp2").code, 1);
  EXPECT_EQ(run_ramp("loads " + kTrace + " --layout ep65").code, 1);
  EXPECT_EQ(run_ramp("loads " + kTrace + " --model olmoe").code, 1);
  EXPECT_EQ(run_ramp("loads " + kTrace + " --held-out poetry").code, 1);
  EXPECT_EQ(run_ramp("loads " + kTrace + " --train -1").code, 1);
  EXPECT_EQ(run_ramp("loads " + kTrace + " --placement every-x").code, 1);
  EXPECT_EQ(run_ramp("loads " + kTrace + " --replicas 3").code, 1);
  EXPECT_EQ(run_ramp("loads " + kTrace + " --test-rate 8,x").code, 1);
  EXPECT_EQ(run_ramp("loads").code, 2);
}

}  // namespace
}  // namespace ramp
