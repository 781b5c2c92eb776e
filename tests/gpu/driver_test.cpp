// SPDX-License-Identifier: Apache-2.0
// The driver's declarations and what happens without one.  Work on a GPU is in device_test.cpp.
#include "gpu/driver.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gpu/clocks.hpp"
#include "gpu/device.hpp"
#include "gpu/dynamic_library.hpp"
#include "gpu/module.hpp"
#include "gpu/stream.hpp"
#include "gpu/tensor_map.hpp"

namespace ramp::gpu {
namespace {

const std::string kToolkit = "/usr/local/cuda";

std::string text_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(DriverDeclarations, AgreeWithTheToolkitsHeader) {
  if (!std::filesystem::exists(kToolkit + "/include/cuda.h"))
    GTEST_SKIP() << "no toolkit with a cuda.h here";
  if (std::system("c++ --version > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "no C++ compiler named c++ here";
  const std::string source = RAMP_SOURCE_DIR;
  const std::string command = "c++ -std=c++20 -fsyntax-only -I'" + source + "/src' -I" + kToolkit +
                              "/include '" + source + "/tests/gpu/header_agreement.cc'";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

TEST(DriverDeclarations, NameOnlySymbolsThatTheLibraryExports) {
  const std::string stub = kToolkit + "/lib64/stubs/libcuda.so";
  void* library = dlopen(stub.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!library) GTEST_SKIP() << "no toolkit with a stub of libcuda here";
#define EXPECT_EXPORTED(symbol, parameters) EXPECT_NE(dlsym(library, #symbol), nullptr) << #symbol;
  RAMP_DRIVER_ENTRY_POINTS(EXPECT_EXPORTED)
  RAMP_DRIVER_OPTIONAL_ENTRY_POINTS(EXPECT_EXPORTED)
#undef EXPECT_EXPORTED
  dlclose(library);
}

class WithoutDriver : public ::testing::Test {
 protected:
  void SetUp() override {
    if (driver_available()) GTEST_SKIP() << "this machine has a driver";
  }
};

TEST_F(WithoutDriver, EveryUseSaysWhatIsMissingAndHowToGetIt) {
  const std::vector<std::function<void()>> uses{
      [] { driver(); },           [] { device_count(); },         [] { device_info(0); },
      [] { Context context(0); }, [] { Buffer buffer(16); },      [] { Stream stream; },
      [] { Event event; },        [] { PinnedBuffer buffer(16); }};
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::string text = text_of(uses[i]);
    EXPECT_NE(text.find("CUDA driver"), std::string::npos) << i << ": " << text;
    EXPECT_NE(text.find("next: "), std::string::npos) << i << ": " << text;
  }
}

TEST_F(WithoutDriver, TheReasonIsToldWithoutThrowing) {
  std::string why;
  EXPECT_FALSE(driver_available(&why));
  EXPECT_EQ(why, text_of([] { driver(); }));
}

TEST_F(WithoutDriver, EmptyBuffersAreFine) {
  Buffer none(0);
  EXPECT_EQ(none.ptr(), 0u);
  EXPECT_EQ(none.bytes(), 0u);
  none.upload(nullptr, 0);
  EXPECT_TRUE(none.values<int>().empty());
  EXPECT_THROW(none.upload("x", 1), Error);
}

TEST_F(WithoutDriver, ResultsStillHaveTheirNumber) {
  EXPECT_NE(result_text(719).find("719"), std::string::npos);
  EXPECT_EQ(text_of([] { check(cu::kSuccess, "nothing"); }), "");
  try {
    check(700, "running ffn");
    FAIL() << "700 is no success";
  } catch (const CudaError& e) {
    EXPECT_EQ(e.code, 700);
    EXPECT_NE(std::string(e.what()).find("running ffn"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("new process"), std::string::npos)
        << "a lost context needs a new process";
  }
}

TEST(ContextLoss, IsTheKernelFaultsAndNotTheCallersMistakes) {
  for (int lost : {700, 702, 715, 716, 717, 718, 719}) EXPECT_TRUE(context_is_lost(lost)) << lost;
  for (int kept : {cu::kSuccess, cu::kOutOfMemory, 1, 200, cu::kNotReady, 900, 901})
    EXPECT_FALSE(context_is_lost(kept)) << kept;
}

TEST(Module, RefusesBytesThatAreNoElfBeforeTheDriverSeesThem) {
  const std::vector<char> nothing, text(1000, 'x');
  for (const std::vector<char>& bytes : {nothing, text}) {
    const std::string error = text_of([&] { Module module(bytes, "ffn"); });
    EXPECT_NE(error.find("ffn"), std::string::npos) << error;
    EXPECT_NE(error.find("ELF"), std::string::npos) << error;
  }
}

TEST(DynamicLibrary, TakesTheFirstThatOpensAndTellsWhyOthersDidNot) {
  std::vector<std::string> failures;
  const std::array<std::string, 2> names{"/nowhere/libnothing.so", "libm.so.6"};
  const auto library = DynamicLibrary::open(names, &failures);
  ASSERT_TRUE(library);
  EXPECT_NE(library->path().find("libm"), std::string::npos);
  EXPECT_EQ(library->path().front(), '/')
      << "the path is the file, not the name that was asked for";
  EXPECT_NE(library->symbol("cos"), nullptr);
  EXPECT_EQ(library->symbol("no_such_function"), nullptr);
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_NE(failures[0].find("/nowhere/libnothing.so"), std::string::npos);
}

TEST(Throttling, NamesEveryReasonAndDropsOnlyThoseThatDistortATime) {
  EXPECT_EQ(throttle_names(0), "none");
  EXPECT_EQ(throttle_names(0x4 | 0x20), "power cap, thermal slowdown (software)");
  EXPECT_EQ(throttle_names(0x1000), "unknown 0x1000");
  ClockSample sample;
  for (std::uint64_t harmless : {0x0, 0x1, 0x2, 0x100, 0x1000}) {
    sample.reasons = harmless;
    EXPECT_FALSE(sample.throttled(0)) << harmless;
  }
  for (std::uint64_t harmful : {0x4, 0x8, 0x10, 0x20, 0x40, 0x80, 0x5}) {
    sample.reasons = harmful;
    EXPECT_TRUE(sample.throttled(0)) << harmful;
    sample.sm_mhz = 1965;
    EXPECT_FALSE(sample.throttled(1980)) << "a cap that takes a hundredth";
    sample.sm_mhz = 1700;
    EXPECT_TRUE(sample.throttled(1980)) << harmful;
    sample.sm_mhz = 0;
  }
}

TEST(Clocks, AreAbsentWithAReasonWhereNvmlKnowsNoSuchGpu) {
  const Clocks clocks("GPU-00000000-0000-0000-0000-000000000000");
  EXPECT_FALSE(clocks.available());
  EXPECT_FALSE(clocks.why_not().empty());
  EXPECT_FALSE(clocks.sample());
}

}  // namespace
}  // namespace ramp::gpu
