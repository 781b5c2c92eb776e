// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "tests/cli/choice_program.hpp"

namespace ramp {
namespace {

// Two layers of a recorded trace on few passes: seconds of a campaign become a tenth of one.
std::string profile(const std::string& timer, const std::string& file,
                    const std::string& more = "") {
  return "profile --model dsv2-lite --layout ep8 --trace " RAMP_SOURCE_DIR
         "/data/traces/dsv2lite_esft.rtrace --rows 3,12 --passes 6 --uniform 0 "
         "--timer " +
         timer + " -o " + folder().at(file) + " " + more;
}

std::string pid_text(pid_t pid) { return std::to_string(pid); }

// The program in the background.
pid_t start(const std::string& arguments, const std::string& err) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const std::string command =
        "exec " + std::string(RAMP_PROGRAM) + " " + arguments + " >/dev/null 2>" + err;
    ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  return pid;
}

void wait_for(const std::string& path) {
  for (int i = 0; i < 500 && !std::filesystem::exists(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(std::filesystem::exists(path)) << path;
}

TEST(ProfileVerb, TurnsATraceIntoMeasurements) {
  const Said said = ramp_says(profile("simulated:seed=1", "a0.rmeas", "--json"));
  ASSERT_EQ(said.code, 0) << said.err;
  const auto json = said.json();
  EXPECT_EQ(json["end"], "finished");
  EXPECT_EQ(json["cells"], json["planned"]);
  EXPECT_EQ(json["configurations"]["all"], 72);
  EXPECT_EQ(json["passes"], 9);  // 6 to fit on, 3 to score on
  EXPECT_EQ(json["provenance"]["gpu"], "simulated");
  EXPECT_NE(said.err.find("plan: "), std::string::npos);
  const MeasuredSpace space = load_measurements(folder().at("a0.rmeas"));
  EXPECT_EQ(space.shape.experts, 8);
  EXPECT_EQ(space.shape.hidden, 2048);
  EXPECT_EQ(space.gpus, 8);
  EXPECT_EQ(space.provenance.layout, "ep8");
  EXPECT_EQ(space.provenance.routing.rfind("recorded: ", 0), 0u);
  int test = 0;
  for (const MeasuredPass& pass : space.passes) test += pass.role == Role::kTest;
  EXPECT_EQ(test, 3);
}

TEST(ProfileVerb, SaysToPeopleThatASimulationIsNone) {
  const Said said = ramp_says(profile("simulated", "a1.rmeas", "--show 3"));
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("SIMULATED"), std::string::npos);
  EXPECT_NE(said.out.find("contenders"), std::string::npos);
  EXPECT_NE(said.out.find("more: --show"), std::string::npos);
}

TEST(ProfileVerb, UnderTensorParallelismAllGpusShareOneLoad) {
  const std::string file = folder().at("tp.rmeas");
  const Said said = ramp_says(
      "profile --model olmoe --layout tp2 --generate seed=1,passes=1,layers=1 --passes 4 --uniform "
      "0 "
      "--timer simulated --json -o " +
      file);
  ASSERT_EQ(said.code, 0) << said.err;
  const MeasuredSpace space = load_measurements(file);
  EXPECT_EQ(space.shape.experts, 64);
  EXPECT_EQ(space.shape.intermediate, 512);
  for (const MeasuredPass& pass : space.passes) EXPECT_EQ(pass.load_of_gpu[0], pass.load_of_gpu[1]);
}

TEST(ProfileVerb, AShardThatCutsAScaleBlockIsRefused) {
  const Said said = ramp_says("profile --model dsv2-lite --layout tp2 --trace " RAMP_SOURCE_DIR
                              "/data/traces/dsv2lite_esft.rtrace --timer simulated -o " +
                              folder().at("cut.rmeas"));
  EXPECT_EQ(said.code, 1);
  EXPECT_NE(said.err.find("128"), std::string::npos) << said.err;
}

TEST(ProfileVerb, GeneratesRoutingAndSaysSo) {
  const Said said = ramp_says(
      "profile --model olmoe --layout ep16 --generate seed=3,passes=1,layers=1 --passes 4 "
      "--uniform 0 --timer simulated --json -o " +
      folder().at("g.rmeas"));
  ASSERT_EQ(said.code, 0) << said.err;
  const std::string routing = said.json()["provenance"]["routing"];
  EXPECT_EQ(routing.rfind("generated: ", 0), 0u) << routing;
  EXPECT_NE(routing.find("seed 3"), std::string::npos);
}

TEST(ProfileVerb, QuarantinesAndGoesOn) {
  const Said said = ramp_says(profile(
      "simulated:crash=sim-r8-c256-s4-static,wrong=sim-r16-c256-s4-static", "a4.rmeas", "--json"));
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.json()["configurations"]["quarantined"], 1);
  EXPECT_EQ(said.json()["configurations"]["wrong"], 1);
  EXPECT_NE(said.err.find("quarantined sim-r8-c256-s4-static"), std::string::npos);
}

TEST(ProfileVerb, ABudgetThatEndsSaysHowToAddTheRest) {
  const Said first = ramp_says(profile("simulated:pace=400", "a5.rmeas", "--json --minutes 0.01"));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.json()["end"], "budget");
  EXPECT_NE(first.err.find("to add the rest:"), std::string::npos);
  EXPECT_NE(first.err.find("-o " + folder().at("a5.rmeas")), std::string::npos);
  const Said second = ramp_says(profile("simulated", "a5.rmeas", "--json"));
  EXPECT_EQ(second.json()["end"], "finished");
  EXPECT_GT(second.json()["cells"], first.json()["cells"]);
}

TEST(ProfileVerb, CtrlCSaysHowToGoOnAndAKillLosesNothingEither) {
  for (const int signal : {SIGINT, SIGKILL}) {
    const std::string file = "s" + std::to_string(signal) + ".rmeas",
                      err = folder().at("err" + std::to_string(signal));
    const pid_t pid = start(profile("simulated:pace=400", file), err);
    wait_for(folder().at(file));
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    ::kill(pid, signal);
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (signal == SIGINT) {
      ASSERT_TRUE(WIFEXITED(status));
      EXPECT_EQ(WEXITSTATUS(status), 1);
      const std::string text = text_of_file(err);
      EXPECT_NE(text.find("nothing is lost, go on with:"), std::string::npos) << text;
      EXPECT_NE(text.find("profile --model dsv2-lite"), std::string::npos) << text;
    } else {
      EXPECT_TRUE(WIFSIGNALED(status));
    }
    const Said rest = ramp_says(profile("simulated", file, "--json"));
    ASSERT_EQ(rest.code, 0) << rest.err;
    EXPECT_NE(rest.err.find("going on: "), std::string::npos) << rest.err;
    EXPECT_EQ(rest.json()["end"], "finished");
  }
  // Both ended with the same table as one that nobody stopped.
  ASSERT_EQ(ramp_says(profile("simulated", "whole.rmeas", "--json")).code, 0);
  const MeasuredSpace whole = load_measurements(folder().at("whole.rmeas"));
  for (const char* file : {"s2.rmeas", "s9.rmeas"})
    EXPECT_TRUE(load_measurements(folder().at(file)).samples == whole.samples) << file;
}

TEST(ProfileVerb, ASecondCampaignOnOneFileIsRefusedWithThePid) {
  const pid_t pid = start(profile("simulated:pace=1000", "a7.rmeas"), "/dev/null");
  wait_for(folder().at("a7.rmeas"));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const Said second = ramp_says(profile("simulated", "a7.rmeas"));
  EXPECT_EQ(second.code, 1);
  EXPECT_NE(second.err.find("process " + pid_text(pid)), std::string::npos) << second.err;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

TEST(ProfileVerb, NoWorkerOutlivesItsCampaign) {
  const pid_t pid =
      start(profile("simulated:hang=sim-r8-c256-s4-static@verify", "a8.rmeas"), "/dev/null");
  wait_for(folder().at("a8.rmeas"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const std::string children = "/proc/" + pid_text(pid) + "/task/" + pid_text(pid) + "/children";
  const std::string worker = text_of_file(children);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  ASSERT_FALSE(worker.empty()) << "the campaign had no worker";
  const pid_t child = std::stoi(worker);
  bool gone = false;
  for (int i = 0; i < 200 && !gone; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    // Where nobody reaps orphans a zombie stays, which holds nothing.
    const std::string stat = text_of_file("/proc/" + pid_text(child) + "/stat");
    gone = stat.empty() || stat.find(") Z ") != std::string::npos;
  }
  EXPECT_TRUE(gone);
}

TEST(ProfileVerb, RefusalsNameTheFlagAndLeaveNoFile) {
  const std::string trace = RAMP_SOURCE_DIR "/data/traces/dsv2lite_esft.rtrace",
                    out = " -o " + folder().at("never.rmeas");
  const auto refusal = [&](const std::string& arguments) {
    const Said said = ramp_says("profile " + arguments + out);
    EXPECT_NE(said.code, 0) << arguments;
    EXPECT_FALSE(std::filesystem::exists(folder().at("never.rmeas"))) << arguments;
    return said.err;
  };
  EXPECT_NE(refusal("--model dsv2-lite").find("--trace, --generate"), std::string::npos);
  EXPECT_NE(refusal("--model dsv2-lite --generate seed=1 --trace " + trace).find("both"),
            std::string::npos);
  EXPECT_NE(refusal("--trace " + trace + " --timer clock").find("gpu or gpu:N"), std::string::npos);
  EXPECT_NE(refusal("--trace " + trace + " --timer simulated:speed=9").find("speed"),
            std::string::npos);
  EXPECT_NE(refusal("--trace " + trace + " --timer gpu:999 --rows 1 --passes 2 --uniform 0")
                .find("gpu:999"),
            std::string::npos);
  EXPECT_NE(refusal("--generate seed=1").find("--model"), std::string::npos);
  EXPECT_NE(refusal("--model olmoe --generate sed=1").find("sed"), std::string::npos);
  EXPECT_NE(refusal("--model gptoss-20b --generate seed=1").find("gptoss-20b"), std::string::npos);
  EXPECT_NE(refusal("--trace " + trace + " --timer simulated --rounds 0 --rows 1 --passes 2")
                .find("--rounds"),
            std::string::npos);
}

TEST(ProfileVerb, ATableGoesOutAndComesBackForOtherKernels) {
  ASSERT_EQ(ramp_says(profile("simulated", "a10.rmeas", "--json")).code, 0);
  const std::string a = folder().at("a10.rmeas"), table = folder().at("a10.tsv"),
                    b = folder().at("b10.rmeas");
  ASSERT_EQ(ramp_says("profile export " + a + " -o " + table).code, 0);
  const Said imported =
      ramp_says("profile import " + table + " --like " + a + " -o " + b + " --json");
  ASSERT_EQ(imported.code, 0) << imported.err;
  const MeasuredSpace ours = load_measurements(a), theirs = load_measurements(b);
  EXPECT_TRUE(ours.samples == theirs.samples);
  EXPECT_EQ(ours.passes.size(), theirs.passes.size());
  EXPECT_EQ(ramp_says("profile export /no/such/file").code, 1);
  const Said fitted = ramp_says("fit " + b + " --json");
  EXPECT_EQ(fitted.code, 0) << fitted.err;
}

TEST(ProfileVerb, HelpTeachesAndTheWorkerIsHidden) {
  const Said help = ramp_says("profile --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("Examples:"), std::string::npos);
  EXPECT_NE(help.out.find("--minutes"), std::string::npos);
  EXPECT_EQ(ramp_says("--help").out.find("worker"), std::string::npos);
}

}  // namespace
}  // namespace ramp
