// SPDX-License-Identifier: Apache-2.0
// `ramp paper --measure` from end to end on the simulated timer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/cli/choice_program.hpp"

namespace ramp {
namespace {

const std::string kTiny =
    " --measure --layouts olmoe:ep8,olmoe:ep16 --generate seed=1,passes=1,layers=1 --passes 4 ";

std::string measured(const std::string& into, const std::string& timer) {
  return "paper table3 --json --resamples 10 --data " + folder().at("nothing") + kTiny +
         "--minutes 0 --into " + folder().at(into) + " --timer " + timer;
}

TEST(PaperMeasure, AKilledRunGoesOnAndMakesTheSameTable) {
  const std::string command =
      "exec " + std::string(RAMP_PROGRAM) + " " + measured("killed", "simulated:pace=300");
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execl("/bin/sh", "sh", "-c", (command + " >/dev/null 2>&1").c_str(),
            static_cast<char*>(nullptr));
    ::_exit(127);
  }
  const std::string first = folder().at("killed") + "/olmoe-ep8.rmeas";
  for (int i = 0; i < 1000 && !std::filesystem::exists(first); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  ASSERT_TRUE(std::filesystem::exists(first));
  const Said rest = ramp_says(measured("killed", "simulated"));
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(rest.err.find("2/2 olmoe ep16: ramp profile"), std::string::npos) << rest.err;
  const Said whole = ramp_says(measured("whole", "simulated"));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(rest.json().at("rows"), whole.json().at("rows"));
  // Nothing is left: no timer is opened, and the table is the same.
  const Said again = ramp_says(measured("whole", "simulated"));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("1/2 olmoe ep8: measured already"), std::string::npos) << again.err;
  EXPECT_EQ(again.json().at("rows"), whole.json().at("rows"));
  // Simulated times are never taken for a GPU's.
  const Said mixed = ramp_says(measured("whole", "gpu"));
  EXPECT_EQ(mixed.code, 1);
  EXPECT_NE(mixed.err.find("--into"), std::string::npos) << mixed.err;
}

TEST(PaperMeasure, PrintShowsTheCommandsOfTheShippedLayoutsAndMeasuresNothing) {
  const std::string into = folder().at("never"), data = std::string(RAMP_SOURCE_DIR) + "/data";
  const Said said =
      ramp_says("paper table3 --measure --print --minutes 0.5 --into " + into + " --data " + data);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("ramp profile --model olmoe --layout ep8 --generate seed=1 --minutes 0.5 "
                          "-o " +
                          into + "/olmoe-ep8.rmeas"),
            std::string::npos)
      << said.out;
  EXPECT_NE(said.out.find("--trace " + data + "/traces/dsv2lite_esft.rtrace"), std::string::npos)
      << said.out;
  int layouts = 0;
  for (const auto& file : std::filesystem::directory_iterator(data + "/h200"))
    layouts += file.path().extension() == ".rmeas" &&
               file.path().filename().string().find("-ep") != std::string::npos;
  ASSERT_GT(layouts, 8);
  EXPECT_NE(said.out.find(fmt::format("{} layouts: {} minutes", layouts, 0.5 * layouts)),
            std::string::npos)
      << said.out;
  EXPECT_FALSE(std::filesystem::exists(into));
}

TEST(PaperMeasure, ABudgetIsALayoutsAndALargerOneAddsTheDifference) {
  const std::string command = "paper table3 --data " + folder().at("nothing") + kTiny + "--into " +
                              folder().at("budget") + " --timer simulated:pace=400 --minutes ";
  ASSERT_EQ(ramp_says(command + "0.01").code, 0);
  const Said same = ramp_says(command + "0.01 --print"), more = ramp_says(command + "0.5 --print");
  EXPECT_NE(same.out.find("2 layouts: 0 minutes"), std::string::npos) << same.out;
  EXPECT_NE(more.out.find("2 layouts: 0.98 minutes"), std::string::npos) << more.out;
  EXPECT_NE(more.out.find("--minutes 0.49"), std::string::npos) << more.out;
}

TEST(PaperMeasure, RefusesWithTheStepThatMendsIt) {
  const std::string data = std::string(RAMP_SOURCE_DIR) + "/data";
  const auto refusal = [&](const std::string& arguments) {
    const Said said = ramp_says("paper " + arguments + " --data " + data);
    EXPECT_EQ(said.code, 1) << arguments;
    return said.err;
  };
  EXPECT_NE(refusal("table3 --measure --into " + data + "/h200").find("--into"), std::string::npos);
  EXPECT_NE(refusal("table11 --measure " + data + "/h200/olmoe-ep8.rmeas").find("--layouts"),
            std::string::npos);
  EXPECT_NE(refusal("table3 --measure --layouts olmoe").find("MODEL:LAYOUT"), std::string::npos);
  EXPECT_NE(refusal("foreign --measure").find("foreign-kernels.md"), std::string::npos);
  EXPECT_NE(refusal("all --csv x.csv").find("--csv"), std::string::npos);
}

}  // namespace
}  // namespace ramp
