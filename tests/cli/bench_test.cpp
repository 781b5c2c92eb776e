// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "gpu/driver.hpp"
#include "kernels/ffn/space.hpp"
#include "tests/cli/run_program.hpp"

namespace ramp {
namespace {

bool says(const ProgramRun& run, const std::string& text) {
  return (run.out + run.err).find(text) != std::string::npos;
}

TEST(BenchVerb, RefusesWhatTheCommandLineGetsWrongBeforeItLooksForAGpu) {
  const struct {
    const char* arguments;
    const char* says;
  } wrong[] = {
      {"layer gpt5", "olmoe"},
      {"layer olmoe --layout ep3x", "layout"},
      {"layer olmoe --policy fastest", "plan, theta, best or forced"},
      {"layer olmoe --policy plan", "--plan FILE"},
      {"layer olmoe --policy forced:none", "ramp check --list"},
      {"layer olmoe --theta 1,2,3", "one for each label"},
      {"layer olmoe --tokens 0", "1 and more"},
      {"layer olmoe --tokens 1,x", "--tokens"},
      {"layer olmoe --load zipf", "uniform, generated or recorded"},
      {"layer olmoe --load recorded", "--trace"},
      {"layer olmoe --rank most", "--rank"},
      {"layer olmoe --forced one", "all"},
      {"layer olmoe --plan /nowhere/plan.json", "/nowhere/plan.json"},
      {"layer olmoe --mode ordered", "family f3"},
      {"layer olmoe --mode ordered --plan plan.json", "the plan says it"},
      {"layer", "model"},
      {"ffn olmoe --configs ,", "--configs"},
      {"select olmoe --pairs many", "--pairs"},
  };
  for (const auto& w : wrong) {
    const ProgramRun run = run_ramp(std::string("bench ") + w.arguments);
    EXPECT_EQ(run.code, 1) << w.arguments;
    EXPECT_TRUE(says(run, w.says)) << w.arguments << ": " << run.err;
  }
  EXPECT_EQ(run_ramp("bench").code, 2);
  EXPECT_EQ(run_ramp("bench layer olmoe --replays 1").code, 2);
}

// What `tools/measure.sh` prints, its errors too, and whether it is content.
struct Printed {
  std::string text;
  bool good = false;
};
Printed print_measure(const std::string& environment, const std::string& arguments) {
  const std::string command =
      "cd " RAMP_SOURCE_DIR " && " + environment + " tools/measure.sh " + arguments + " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  Printed printed;
  if (!pipe) return printed;
  for (int c; (c = std::fgetc(pipe)) != EOF;) printed.text += static_cast<char>(c);
  printed.good = ::pclose(pipe) == 0;
  return printed;
}

TEST(MeasureScript, AShareOfTheMinutesIsAPositiveNumber) {
  const Printed half = print_measure("SHARE=0.5", "--print tensor");
  EXPECT_TRUE(half.good) << half.text;
  EXPECT_NE(half.text.find("--minutes 0.15 "), std::string::npos) << half.text;
  for (const char* bad : {"abc", "0", "0.0", "-1", "1e", "."}) {
    const Printed said = print_measure(std::string("SHARE=") + bad, "--print tensor");
    EXPECT_FALSE(said.good) << bad << ": no minutes would mean all of it";
    EXPECT_NE(said.text.find("above 0"), std::string::npos) << said.text;
  }
}

TEST(MeasureScript, EveryCommandIsOneThatOnlyAGpuIsMissingFor) {
  if (gpu::driver_available()) GTEST_SKIP() << "it would measure";
  const Printed printed = print_measure("RAMP=ramp", "--print");
  EXPECT_TRUE(printed.good);
  std::istringstream lines(printed.text);
  std::string scratch = (std::filesystem::temp_directory_path() / "ramp-measure-XXXXXX").string();
  ASSERT_TRUE(::mkdtemp(scratch.data()));
  int commands = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find("ramp ");
    ASSERT_NE(at, std::string::npos) << line;
    std::string arguments = line.substr(at + 5);
    for (std::size_t out; (out = arguments.find("OUT/")) != std::string::npos;)
      arguments.replace(out, 4, scratch + "/");
    if (const std::size_t data = arguments.find("data/"); data != std::string::npos)
      arguments.insert(data, RAMP_SOURCE_DIR "/");
    const ProgramRun run = run_ramp(arguments);
    EXPECT_EQ(run.code, 1) << line;
    EXPECT_TRUE(says(run, "no CUDA driver")) << line << ": " << run.err;
    ++commands;
  }
  EXPECT_GE(commands, 15);
  EXPECT_TRUE(std::filesystem::is_empty(scratch)) << "nothing measured, nothing left";
  std::filesystem::remove_all(scratch);
}

TEST(BenchVerb, RefusesAMenuWhoseEntriesCantShareAKernel) {
  std::string narrow, wide;
  for (const FfnConfig& c : ffn_space()) (c.cols == 256 ? narrow : wide) = ffn_label(c);
  const ProgramRun run = run_ramp("bench layer olmoe --policy theta --menu " + narrow + "," + wide +
                                  " --theta 1,1,1,1 --theta 1,1,1,1");
  EXPECT_EQ(run.code, 1);
  EXPECT_TRUE(says(run, "menu/1") && says(run, wide)) << run.err;
}

TEST(BenchVerb, SaysWhatIsMissingWithoutADriver) {
  if (gpu::driver_available()) GTEST_SKIP() << "this machine has a driver";
  for (const char* what :
       {"layer olmoe", "ffn olmoe", "select olmoe", "layer olmoe --forced all"}) {
    const ProgramRun run = run_ramp(std::string("bench ") + what);
    EXPECT_EQ(run.code, 1) << what;
    EXPECT_TRUE(says(run, "CUDA driver") && says(run, "ramp doctor")) << run.err;
  }
}

TEST(BenchVerb, TeachesWithAnExample) {
  for (const char* what : {"layer", "ffn", "select"}) {
    const ProgramRun help = run_ramp(std::string("bench ") + what + " --help");
    EXPECT_EQ(help.code, 0);
    EXPECT_TRUE(says(help, std::string("ramp bench ") + what + " olmoe")) << what;
  }
}

}  // namespace
}  // namespace ramp
