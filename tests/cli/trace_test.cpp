// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run_program.hpp"
#include "tests/problem/small_trace.hpp"

namespace ramp {
namespace {

using nlohmann::json;

std::string shipped(const std::string& name) {
  return std::string(RAMP_SOURCE_DIR) + "/data/traces/" + name;
}

std::string npy_bytes(int experts, int tokens) {
  Random random(4);
  ByteWriter data;
  for (const std::int16_t id : random_ids(2 * tokens, experts, 2, random))
    data.put(static_cast<std::uint8_t>(id));
  return npy_of("|u1", {2, tokens, 2}, data.take());
}

TEST(TraceVerb, ImportsAnArrayAndLooksAtTheResult) {
  TestFolder folder;
  write_bytes(folder / "a.ids.npy.gz", gzip_of(npy_bytes(16, 60)));
  write_bytes(folder / "a.json",
              R"({"request_offsets":[0,20,60],"request_domain":["math","code"],"phase":"decode"})");
  const std::string out = (folder / "a.rtrace").string();
  const ProgramRun import =
      run_ramp("trace import " + (folder / "a.ids.npy.gz").string() + " -o " + out +
               " --E 16 --layers 3,7 --source 'here @ 1' --licence MIT --json");
  ASSERT_EQ(import.code, 0) << import.err;
  const json report = json::parse(import.out);
  EXPECT_EQ(report["report"]["rows"], 120);
  EXPECT_EQ(report["report"]["out_of_range"], 0);
  const json info = json::parse(run_ramp("trace info " + out + " --json").out);
  EXPECT_EQ(info["layers"], json({3, 7}));
  EXPECT_EQ(info["requests"], 2);
  EXPECT_EQ(info["source"], "here @ 1");
  EXPECT_EQ(info["health"]["whole"], true);
  EXPECT_FALSE(std::filesystem::exists(out + ".part"));
}

TEST(TraceVerb, RefusesASillyRecordAndSaysHowToForceIt) {
  TestFolder folder;
  write_bytes(folder / "a.npy", npy_bytes(16, 60));
  const std::string arguments = "trace import " + (folder / "a.npy").string() + " -o " +
                                (folder / "a.rtrace").string() + " --E 8";
  const ProgramRun refused = run_ramp(arguments);
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("ids outside -1 .. 7"), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "a.rtrace"));
  const ProgramRun forced = run_ramp(arguments + " --force");
  EXPECT_EQ(forced.code, 0);
  EXPECT_NE(forced.out.find("FORCED"), std::string::npos);
}

TEST(TraceVerb, InfoTellsADamagedFileFromAWholeOne) {
  TestFolder folder;
  std::string bytes = bytes_of(shipped("gptoss20b_decode.rtrace"));
  ASSERT_GT(bytes.size(), 1'000'000u);
  bytes.resize(bytes.size() / 2);
  write_bytes(folder / "half.rtrace", bytes);
  const ProgramRun half = run_ramp("trace info " + (folder / "half.rtrace").string());
  EXPECT_EQ(half.code, 0);
  EXPECT_NE(half.out.find("cut short"), std::string::npos) << half.out;
  EXPECT_NE(run_ramp("trace info " + shipped("gptoss20b_decode.rtrace")).out.find("whole"),
            std::string::npos);
  EXPECT_EQ(run_ramp("trace info " + (folder / "missing").string()).code, 1);
}

TEST(TraceVerb, GeneratesALabelledTrace) {
  TestFolder folder;
  const std::string out = (folder / "g.rtrace").string();
  const std::string flags =
      " -o " + out +
      " --layers 2 --passes 4 --concurrency 4,16 --repeats 1 --max-tokens 64 --seed 5";
  ASSERT_EQ(run_ramp("trace generate olmoe" + flags).code, 0);
  const json info = json::parse(run_ramp("trace info " + out + " --json").out);
  EXPECT_EQ(info["kind"], "generated");
  EXPECT_EQ(info["seed"], 5);
  EXPECT_EQ(info["passes"], 4 * 2 * 4);
  EXPECT_NE(info["calibration"].get<std::string>().find("olmoe"), std::string::npos);
  const ProgramRun no_calibration = run_ramp("trace generate kimi-k2" + flags);
  EXPECT_EQ(no_calibration.code, 1);
  EXPECT_NE(no_calibration.err.find("--calibration"), std::string::npos);
}

TEST(TraceVerb, ReplaysRequestsIntoPasses) {
  const std::string trace = shipped("dsv2lite_esft.rtrace");
  const json closed =
      json::parse(run_ramp("trace replay " + trace + " --concurrency 40 --passes 50 --json").out);
  EXPECT_EQ(closed["median_tokens"], 40);
  EXPECT_EQ(closed["passes"], 50);
  const json prefill =
      json::parse(run_ramp("trace replay " + trace +
                           " --concurrency 8 --prompts prefill --budget 512 --passes 20 --json")
                      .out);
  EXPECT_LE(prefill["max_tokens"], 512);
  EXPECT_EQ(prefill["prefill_tokens"], prefill["tokens"]);
  const ProgramRun unknown = run_ramp("trace replay " + trace + " --domain poetry");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("law"), std::string::npos);
}

}  // namespace
}  // namespace ramp
