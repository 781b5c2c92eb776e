// SPDX-License-Identifier: Apache-2.0
// `ramp doctor` as a program: what it prints and how it ends, with and without the parts of a
// machine.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace {

struct Outcome {
  int code = -1;
  std::string out;  // with stderr behind it
};

// `environment`: assignments in front of the command.
Outcome doctor(const std::string& arguments, const std::string& environment = "") {
  const std::string command = environment + " '" RAMP_PROGRAM "' doctor " + arguments + " 2>&1";
  Outcome run;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return run;
  std::array<char, 4096> chunk;
  while (const std::size_t n = fread(chunk.data(), 1, chunk.size(), pipe))
    run.out.append(chunk.data(), n);
  const int status = pclose(pipe);
  run.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return run;
}

bool lacks(const nlohmann::json& report, const std::string& what) {
  for (const auto& m : report["missing"])
    if (m["what"].get<std::string>().find(what) != std::string::npos) return true;
  return false;
}

class Doctor : public ::testing::Test {
 protected:
  void SetUp() override {
    cache_ = ::testing::TempDir() + "ramp_doctor_" + std::to_string(getpid());
    environment_ = "RAMP_CACHE_DIR='" + cache_ + "'";
  }
  void TearDown() override { std::filesystem::remove_all(cache_); }
  std::string cache_, environment_;
};

TEST_F(Doctor, ReportsEveryPartForPeople) {
  const Outcome run = doctor("", environment_);
  EXPECT_EQ(run.code, 0);
  for (const char* label :
       {"ramp ", "driver ", "gpu ", "nvrtc ", "nvml ", "cache ", "SQLite 3.", "zstd 1."})
    EXPECT_NE(run.out.find(label), std::string::npos) << label << "\n" << run.out;
}

TEST_F(Doctor, JsonHoldsTheSame) {
  const Outcome run = doctor("--json", environment_);
  ASSERT_EQ(run.code, 0);
  const auto report = nlohmann::json::parse(run.out);
  for (const char* part :
       {"build", "driver", "gpus", "nvrtc", "nvml", "cache", "libraries", "missing"})
    EXPECT_TRUE(report.contains(part)) << part;
  EXPECT_EQ(report["cache"]["directory"], cache_);
  EXPECT_EQ(report["cache"]["usable"], true);
  EXPECT_EQ(report["driver"]["found"].get<bool>(), !lacks(report, "CUDA driver"));
  EXPECT_EQ(report["nvrtc"]["found"].get<bool>(), !lacks(report, "NVRTC"));
  for (const auto& m : report["missing"]) {
    EXPECT_FALSE(m["cost"].get<std::string>().empty());
    EXPECT_FALSE(m["next"].get<std::string>().empty());
  }
}

TEST_F(Doctor, AMachineWithoutNvrtcIsNoFailureUnlessItIsRequired) {
  const std::string without = environment_ + " RAMP_NVRTC=/nowhere/libnvrtc.so.13";
  const Outcome report = doctor("--json", without);
  EXPECT_EQ(report.code, 0);
  const auto json = nlohmann::json::parse(report.out);
  EXPECT_EQ(json["nvrtc"]["found"], false);
  EXPECT_EQ(json["nvrtc"]["candidates"][0], "/nowhere/libnvrtc.so.13");
  EXPECT_TRUE(lacks(json, "NVRTC"));
  const Outcome required = doctor("--require nvrtc", without);
  EXPECT_EQ(required.code, 1);
  EXPECT_NE(required.out.find("--require: got nvrtc"), std::string::npos) << required.out;
  EXPECT_NE(doctor("", without).out.find("pip install nvidia-cuda-nvrtc"), std::string::npos);
}

TEST_F(Doctor, RequireAgreesWithTheReport) {
  const auto report = nlohmann::json::parse(doctor("--json", environment_).out);
  bool gpu = false;
  for (const auto& g : report["gpus"]) gpu = gpu || g["runs_kernels"].get<bool>();
  EXPECT_EQ(doctor("--require gpu", environment_).code, gpu ? 0 : 1);
  EXPECT_EQ(doctor("--require nvrtc", environment_).code,
            report["nvrtc"].value("compiles_sm_90a", false) ? 0 : 1);
  EXPECT_EQ(doctor("--require gpu,nvrtc", environment_).code,
            gpu && report["nvrtc"].value("compiles_sm_90a", false) ? 0 : 1);
}

TEST_F(Doctor, AWrongCommandLineIsTwo) {
  EXPECT_EQ(doctor("--require money", environment_).code, 2);
  EXPECT_EQ(doctor("--no-such-flag", environment_).code, 2);
}

TEST_F(Doctor, SaysWhyTheCacheIsOff) {
  std::filesystem::create_directories(cache_);
  std::filesystem::permissions(cache_, std::filesystem::perms(0777));
  const Outcome run = doctor("--json", environment_);
  const auto report = nlohmann::json::parse(run.out);
  EXPECT_EQ(report["cache"]["usable"], false);
  EXPECT_NE(report["cache"]["why"].get<std::string>().find("777"), std::string::npos) << run.out;
  EXPECT_TRUE(lacks(report, "cache directory"));
  EXPECT_EQ(nlohmann::json::parse(doctor("--json", "RAMP_CACHE_DIR=").out)["cache"]["usable"],
            false);
}

TEST_F(Doctor, HelpTeachesWithAnExample) {
  const Outcome run = doctor("--help");
  EXPECT_EQ(run.code, 0);
  EXPECT_NE(run.out.find("ramp doctor --require gpu,nvrtc"), std::string::npos) << run.out;
}

}  // namespace
