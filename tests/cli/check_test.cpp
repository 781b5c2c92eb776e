// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "gpu/driver.hpp"
#include "kernels/ffn/space.hpp"
#include "tests/cli/run_program.hpp"

namespace ramp {
namespace {

using nlohmann::json;

bool says(const ProgramRun& run, const std::string& text) {
  return (run.out + run.err).find(text) != std::string::npos;
}

TEST(CheckVerb, ListsEveryConfigurationOnceWithItsKnobs) {
  const json out = json::parse(run_ramp("check --list --json").out);
  std::set<std::string> labels;
  for (const json& row : out["configs"]) {
    labels.insert(row["config"].get<std::string>());
    EXPECT_EQ(ffn_label(ffn_from_knobs(row["knobs"].dump())), row["config"]);
    EXPECT_LE(row["smem_bytes"].get<int>(), kSharedMemoryLimit);
  }
  EXPECT_EQ(labels.size(), out["configs"].size());
  EXPECT_EQ(labels.size(), ffn_space().size());
  const ProgramRun table = run_ramp("check --list");
  EXPECT_EQ(table.code, 0);
  EXPECT_TRUE(says(table, *labels.begin()));
}

TEST(CheckVerb, RefusesWhatTheCommandLineGetsWrongBeforeItLooksForAGpu) {
  const ProgramRun label = run_ramp("check --configs f9-none");
  EXPECT_EQ(label.code, 1);
  EXPECT_TRUE(says(label, "f9-none")) << label.err;
  const ProgramRun both = run_ramp("check --all --configs " + ffn_label(ffn_space().front()));
  EXPECT_EQ(both.code, 1);
  EXPECT_TRUE(says(both, "one of them"));
  EXPECT_TRUE(says(run_ramp("check --shape 8,2048,1024"), "E,d,h,k"));
  const ProgramRun odd = run_ramp("check --shape 8,2000,1024,8");
  EXPECT_EQ(odd.code, 1);
  EXPECT_TRUE(says(odd, "hidden") && says(odd, "128")) << odd.err;
  EXPECT_TRUE(says(run_ramp("check --family f2"), "f1 or f3"));
  EXPECT_EQ(run_ramp("check --seeds 0").code, 2);
  EXPECT_EQ(run_ramp("check --nonsense").code, 2);
}

TEST(CheckVerb, SaysWhatIsMissingWithoutADriver) {
  if (gpu::driver_available()) GTEST_SKIP() << "this machine has a driver";
  const ProgramRun run = run_ramp("check --small");
  EXPECT_EQ(run.code, 1);
  EXPECT_TRUE(says(run, "CUDA driver") && says(run, "ramp doctor")) << run.err;
  EXPECT_TRUE(run.out.empty());
}

TEST(CheckVerb, TeachesWithAnExample) {
  const ProgramRun help = run_ramp("check --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(says(help, "compute-sanitizer ramp check --small"));
}

TEST(CheckVerb, ASoakStandsAlone) {
  const std::pair<const char*, const char*> refused[] = {
      {"check --soak 20 --all", "--soak and --all"},
      {"check --soak --small", "--soak and --small"},
      {"check --soak --seeds 3", "--soak and --seeds"},
      {"check --soak --plan p.json --shape 8,1024,512,4", "--plan and --shape"},
      {"check --plan p.json", "nothing without --soak"}};
  for (const auto& [command, text] : refused) {
    const ProgramRun run = run_ramp(command);
    EXPECT_EQ(run.code, 1) << command;
    EXPECT_TRUE(says(run, text)) << run.err;
  }
  EXPECT_TRUE(says(run_ramp("check --soak 0"), "not in range"));
  if (gpu::driver_available()) GTEST_SKIP() << "this machine has a driver";
  for (const char* command : {"check --soak", "check --soak 5 --seed 3"})  // taken, up to the GPU
    EXPECT_TRUE(says(run_ramp(command), "libcuda")) << command;
}

}  // namespace
}  // namespace ramp
