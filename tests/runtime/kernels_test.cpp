// SPDX-License-Identifier: Apache-2.0
// Kernels of a menu, as far as they go without a GPU: compiled into the cache once, and refused
// where there is no driver to load them.
#include "runtime/kernels.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "gpu/nvrtc.hpp"
#include "kernels/ffn/space.hpp"

namespace ramp {
namespace {

class MenuCode : public testing::Test {
 protected:
  void SetUp() override {
    directory =
        std::filesystem::temp_directory_path() / ("ramp-kernels-test-" + std::to_string(getpid()));
    std::filesystem::create_directory(directory);
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all);
  }
  void TearDown() override { std::filesystem::remove_all(directory); }
  gpu::CubinCache cache() const { return gpu::CubinCache({.directory = directory.string()}); }

  std::filesystem::path directory;
  std::vector<FfnConfig> menu = {ffn_space().front()};
};

TEST_F(MenuCode, IsCompiledOnceAndThenFound) {
  std::string why;
  if (!gpu::nvrtc_available(&why)) GTEST_SKIP() << why;
  gpu::CubinCache first = cache();
  const CompiledMenu made = compile_menu(menu, first);
  EXPECT_FALSE(made.cached);
  EXPECT_GT(made.registers, 0);
  EXPECT_LE(made.registers, kFfnLaunchRegisters);
  EXPECT_EQ(made.shared_bytes, ffn_shared_bytes(menu[0]));
  gpu::CubinCache second = cache();
  const CompiledMenu found = compile_menu(menu, second);
  EXPECT_TRUE(found.cached);
  EXPECT_EQ(second.counters().compiled, 0);
  EXPECT_EQ(found.registers, made.registers);
  EXPECT_EQ(found.code_bytes, made.code_bytes);
}

TEST_F(MenuCode, OfIllegalEntriesIsNotCompiled) {
  menu[0].stages = 1;
  gpu::CubinCache empty = cache();
  EXPECT_THROW(compile_menu(menu, empty), Error);
  EXPECT_EQ(empty.counters().compiled, 0);
}

TEST_F(MenuCode, CannotBeLoadedWithoutADriverAndSaysSo) {
  std::string why;
  if (gpu::driver_available(&why)) GTEST_SKIP() << "this machine has a driver";
  gpu::CubinCache empty = cache();
  try {
    load_kernels(menu, empty, true);
    FAIL() << "loaded";
  } catch (const Error& e) {
    EXPECT_EQ(e.what(), why);
  }
  EXPECT_EQ(empty.counters().compiled, 0) << "nothing is compiled for a GPU that isn't there";
}

}  // namespace
}  // namespace ramp
