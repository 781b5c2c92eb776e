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
  EXPECT_NE(info["scores"].get<std::string>().find("Table 7"), std::string::npos);
  const ProgramRun no_calibration = run_ramp("trace generate kimi-k2" + flags);
  EXPECT_EQ(no_calibration.code, 1);
  EXPECT_NE(no_calibration.err.find("--calibration"), std::string::npos);
}

TEST(TraceVerb, ImportsCountsOfPasses) {
  TestFolder folder;
  write_bytes(folder / "c.json",
              R"({"logical_count": [[[2,1,1,0],[0,2,1,1]],[[1,1,0,0],[1,0,1,0]]]})");
  const std::string out = (folder / "c.rtrace").string();
  const ProgramRun run = run_ramp("trace import " + (folder / "c.json").string() + " -o " + out +
                                  " --counts --k 2 --json");
  ASSERT_EQ(run.code, 0) << run.err;
  const json info = json::parse(run_ramp("trace info " + out + " --json").out);
  EXPECT_EQ(info["tokens"], 3);
  EXPECT_EQ(info["passes"], 2);
  EXPECT_EQ(info["experts"], 4);
  EXPECT_NE(info["made"].get<std::string>().find("loads are exact"), std::string::npos);
  write_bytes(folder / "dump.pt", "\x80\x02}q.");
  const ProgramRun pickle =
      run_ramp("trace import " + (folder / "dump.pt").string() + " -o " + out + " --counts --k 2");
  EXPECT_EQ(pickle.code, 1);
  EXPECT_NE(pickle.err.find("torch.load"), std::string::npos) << pickle.err;
}

TEST(TraceVerb, DescribesArrivalsAndReplaysThem) {
  TestFolder folder;
  write_bytes(folder / "azure.csv",
              "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.0,300,4\n"
              "2023-11-16 18:00:02.0,10,1\n");
  const std::string own = (folder / "own.csv").string();
  const ProgramRun described = run_ramp("trace arrivals " + (folder / "azure.csv").string() +
                                        " -o " + own + " --source here --licence MIT --json");
  ASSERT_EQ(described.code, 0) << described.err;
  const json out = json::parse(described.out);
  EXPECT_EQ(out["format"], "azure");
  EXPECT_EQ(out["rate"], 0.5);
  EXPECT_EQ(out["quantiles"]["prompt tokens"]["0.5"], 155);
  const std::string trace = shipped("gptoss20b_decode.rtrace");
  const ProgramRun replay =
      run_ramp("trace replay " + trace + " --arrivals " + own + " --budget 256 --passes 6 --json");
  ASSERT_EQ(replay.code, 0) << replay.err;
  const json passes = json::parse(replay.out);
  EXPECT_EQ(passes["sizes"], json({256, 44, 1, 1, 1, 10}));
  EXPECT_NE(passes["loop"].get<std::string>().find("open loop: own"), std::string::npos);
  write_bytes(folder / "bad.csv", "when,what\n1,2\n");
  const ProgramRun bad = run_ramp("trace arrivals " + (folder / "bad.csv").string());
  EXPECT_EQ(bad.code, 1);
  EXPECT_NE(bad.err.find("ContextTokens"), std::string::npos) << bad.err;
  EXPECT_EQ(run_ramp("trace replay " + trace + " --rate 8 --pass-ms 0").code, 1);
}

TEST(TraceVerb, ShowsTheCalibrationsScoresBesideThePaper) {
  const json scores = json::parse(run_ramp("trace calibration deepseek-r1 --json").out);
  int compared = 0;
  for (const json& score : scores) {
    EXPECT_EQ(score["model"], "deepseek-v3");
    compared += !score["paper"].is_null();
  }
  EXPECT_EQ(compared, 3 + 4);  // Tables 6 and 7
  EXPECT_EQ(run_ramp("trace calibration kimi-k2").code, 1);
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
