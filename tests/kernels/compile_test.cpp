// SPDX-License-Identifier: Apache-2.0
// Every legal configuration is code that is as fast as it was written: no spills, wgmma that
// overlaps, registers that fit the launch.  Needs NVRTC, no GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "gpu/cubin_cache.hpp"
#include "gpu/nvrtc.hpp"
#include "kernels/device_code.hpp"
#include "kernels/ffn/program.hpp"
#include "kernels/ffn/space.hpp"
#include "kernels/prepare/program.hpp"
#include "tests/kernels/cubin_directory.hpp"

namespace ramp {
namespace {

class Compile : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!gpu::nvrtc_available(&why)) GTEST_SKIP() << why;
  }
  gpu::CubinCache cache{{.directory = test_cubin_directory(), .lock_wait_seconds = 600}};
};

TEST_F(Compile, EveryConfigurationOfTheSpaceIsClean) {
  std::vector<gpu::CompileRequest> requests;
  const std::vector<FfnConfig> space = ffn_space();
  for (const FfnConfig& c : space) requests.push_back(ffn_request({&c, 1}));
  const std::vector<gpu::CompileResult> results = cache.get_all(requests);
  double seconds = 0;
  for (std::size_t i = 0; i < space.size(); ++i) {
    const std::string label = ffn_label(space[i]);
    ASSERT_TRUE(results[i].cubin) << label << ": " << results[i].error;
    const gpu::Cubin& cubin = *results[i].cubin;
    EXPECT_EQ(cubin.defects(), "") << label;
    const gpu::KernelResources* kernel = cubin.find("ramp_ffn");
    ASSERT_TRUE(kernel) << label;
    EXPECT_LE(kernel->registers, kFfnLaunchRegisters) << label;
    EXPECT_LE(kernel->registers * kFfnThreads, 65536) << label;
    EXPECT_EQ(kernel->spill_stores + kernel->spill_loads, 0) << label;
    EXPECT_LE(kernel->smem_static + ffn_shared_bytes(space[i]), kSharedMemoryLimit) << label;
    seconds += cubin.seconds;
  }
  RecordProperty("configurations", static_cast<int>(space.size()));
  RecordProperty("compiled_seconds", static_cast<int>(seconds));
}

TEST_F(Compile, APolymorphicMenuOfSixIsClean) {
  std::vector<FfnConfig> menu;
  for (const FfnConfig& c : ffn_space())
    if (c.cols == 256 && c.split == 1 && c.dynamic && !c.grouped &&
        (menu.empty() || menu.back().rows != c.rows) && menu.size() < 6)
      menu.push_back(c);
  ASSERT_EQ(menu.size(), 6u);
  const gpu::Cubin cubin = cache.get(ffn_request(menu));
  EXPECT_NO_THROW(require_clean(cubin, "menu", "ramp_ffn", kFfnLaunchRegisters));
}

// What a plan picks: tiles of all heights in one kernel, in which registers are what the neediest
// of them leaves.
TEST_F(Compile, MenusOfSixInClustersAreClean) {
  std::vector<std::vector<FfnConfig>> menus(2);
  for (const FfnConfig& c : ffn_space())
    if (c.split > 1) {
      std::vector<FfnConfig>& menu = menus[c.split == 2 ? 0 : 1];
      if (menu.size() < 6 && (menu.empty() || menu.back().rows != c.rows || c.split == 4))
        menu.push_back(c);
    }
  std::vector<gpu::CompileRequest> requests;
  for (const auto& menu : menus) {
    ASSERT_EQ(menu.size(), 6u);
    requests.push_back(ffn_request(menu));
  }
  const std::vector<gpu::CompileResult> results = cache.get_all(requests);
  for (std::size_t i = 0; i < menus.size(); ++i) {
    ASSERT_TRUE(results[i].cubin) << results[i].error;
    EXPECT_NO_THROW(require_clean_ffn(*results[i].cubin, menus[i])) << ffn_label(menus[i][0]);
  }
}

TEST_F(Compile, PrepareIsCleanAndSaysHowToLaunchIt) {
  const gpu::Cubin cubin = cache.get(prepare_request());
  EXPECT_NO_THROW(require_clean_prepare(cubin));
  const std::string_view bytes(cubin.bytes.data(), cubin.bytes.size());
  EXPECT_NE(bytes.find("ramp_prepare_launch"), std::string_view::npos)
      << "the variable was dropped from the module";
}

TEST_F(Compile, AKernelThatIsNotThereIsRefused) {
  const gpu::Cubin cubin = cache.get(prepare_request());
  EXPECT_THROW(require_clean(cubin, "prepare", "ramp_ffn", 255), std::exception);
  EXPECT_THROW(require_clean(cubin, "prepare", "ramp_prepare", 8), std::exception)
      << "more registers than the launch has";
}

}  // namespace
}  // namespace ramp
