// SPDX-License-Identifier: Apache-2.0
// NVRTC on this machine, no GPU: source to sm_90a cubin, resources, errors.
#include "gpu/compiler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.hpp"
#include "gpu/nvrtc.hpp"

namespace ramp::gpu {
namespace {

constexpr char kTrivial[] = R"(extern "C" __global__ void one(int* p) { p[threadIdx.x] = 1; })";

// Too many live values for 1,024 threads of 64 registers: some have to spill.
constexpr char kSpilling[] = R"(
extern "C" __global__ void __launch_bounds__(1024) crowded(const float* x, float* y, int n) {
  __shared__ float s[32];
  float a[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) a[i] = x[threadIdx.x + i * 1024];
  s[threadIdx.x & 31] = a[3];
  __syncthreads();
  for (int k = 0; k < n; ++k) {
#pragma unroll
    for (int i = 0; i < 96; ++i) a[i] = a[i] * a[(i + 7) % 96] + s[(k + i) & 31];
  }
#pragma unroll
  for (int i = 0; i < 96; ++i) y[threadIdx.x + i * 1024] = a[i];
}
extern "C" __global__ void calm(float* y) { y[threadIdx.x] = 2; }
)";

// Two wgmma in one group; `between` runs while the first is in flight.
std::string wgmma(const std::string& between) {
  return R"(
__device__ __forceinline__ void mma(float (&d)[4], unsigned long long a, unsigned long long b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0,%1,%2,%3}, %4, %5, 1, 1, 1;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
}
extern "C" __global__ void product(unsigned long long a, unsigned long long b, float* o) {
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  mma(d, a, b);
  )" + between +
         R"(
  mma(d, a + 2, b + 2);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; ++i) o[threadIdx.x * 4 + i] = d[i];
})";
}

std::string failure(const CompileRequest& request) {
  try {
    compile(request);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

class Compiler : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  }
};

TEST_F(Compiler, MakesAnElfForSm90aWithoutAGpu) {
  const Cubin cubin = compile({"one", kTrivial});
  ASSERT_GT(cubin.bytes.size(), 64u);
  EXPECT_EQ(std::string(cubin.bytes.data(), 4), "\177ELF");
  EXPECT_GT(cubin.seconds, 0);
  ASSERT_TRUE(cubin.find("one"));
  EXPECT_TRUE(cubin.find("one")->entry);
  EXPECT_GT(cubin.find("one")->registers, 0);
  EXPECT_EQ(cubin.defects(), "");
}

TEST_F(Compiler, ReportsSpillsAndOnlyWhereTheyAre) {
  const Cubin cubin = compile({"crowded", kSpilling});
  ASSERT_TRUE(cubin.find("crowded"));
  EXPECT_GT(cubin.find("crowded")->spill_stores, 0);
  EXPECT_GT(cubin.find("crowded")->spill_loads, 0);
  EXPECT_LE(cubin.find("crowded")->registers, 64);
  EXPECT_EQ(cubin.find("crowded")->smem_static, 128);
  EXPECT_GE(cubin.find("crowded")->barriers, 1);
  ASSERT_TRUE(cubin.find("calm"));
  EXPECT_EQ(cubin.find("calm")->spill_stores, 0);
  EXPECT_TRUE(cubin.spills());
}

TEST_F(Compiler, ALowerRegisterLimitSpillsMore) {
  CompileRequest request{"crowded", kSpilling};
  const int before = compile(request).find("crowded")->spill_stores;
  request.options = {"--maxrregcount=32"};
  const Cubin cubin = compile(request);
  EXPECT_LE(cubin.find("crowded")->registers, 32);
  EXPECT_GE(cubin.find("crowded")->spill_stores, before);
}

TEST_F(Compiler, CompilesWgmmaAndSeesWhenItIsSerialised) {
  const Cubin good = compile({"good", wgmma("")});
  EXPECT_FALSE(good.wgmma_serialized) << good.log;
  const Cubin bad = compile({"bad", wgmma("d[0] += 1.f;  // an accumulator in flight")});
  EXPECT_TRUE(bad.wgmma_serialized) << bad.log;
  EXPECT_NE(bad.defects().find("wgmma"), std::string::npos);
}

TEST_F(Compiler, SeesTheHeadersOfTheRequestAndNothingElse) {
  CompileRequest request{"included",
                         "#include \"deep/a.h\"\n#include <b.h>\nextern \"C\" __global__ void "
                         "k(int* p) { *p = A + B; }"};
  EXPECT_NE(failure(request).find("deep/a.h"), std::string::npos);
  request.headers = {{"deep/a.h", "#pragma once\n#include \"b.h\"\n#define A (B + 1)\n"},
                     {"b.h", "#pragma once\n#define B 2\n"}};
  EXPECT_TRUE(compile(request).find("k"));
  request.source = "#include <cstdint>\n" + request.source;
  EXPECT_NE(failure(request).find("cstdint"), std::string::npos)
      << "no include path of the toolkit";
}

TEST_F(Compiler, SpeaksCxx20) {
  EXPECT_TRUE(compile({"menu", R"(
struct Entry { int rows, width; bool operator==(const Entry&) const = default; };
template <Entry kEntry> __device__ int product() { return kEntry.rows * kEntry.width; }
extern "C" __global__ void k(int* p) { *p = product<Entry{.rows = 8, .width = 256}>(); })"})
                  .find("k"));
}

TEST_F(Compiler, AnErrorQuotesTheCompilerAndNamesTheRequest) {
  const std::string text =
      failure({"ffn_r8", "extern \"C\" __global__ void k(float* p) { p[0] = q; }"});
  EXPECT_NE(text.find("ffn_r8"), std::string::npos) << text;
  EXPECT_NE(text.find("identifier \"q\" is undefined"), std::string::npos) << text;
  EXPECT_NE(text.find("sm_90a"), std::string::npos) << text;
}

TEST_F(Compiler, AnErrorShowsTheBeginningOfALongLog) {
  std::string source;
  for (int i = 0; i < 60; ++i)
    source += "int v" + std::to_string(i) + " = unknown" + std::to_string(i) + ";\n";
  const std::string text = failure({"many", source});
  EXPECT_NE(text.find("unknown0"), std::string::npos);
  EXPECT_EQ(text.find("unknown50"), std::string::npos);
}

TEST_F(Compiler, WrongOptionsAndArchitecturesAreErrors) {
  EXPECT_NE(failure({"one", kTrivial, {}, {"--no-such-option"}}).find("--no-such-option"),
            std::string::npos);
  EXPECT_NE(failure({"one", kTrivial, {}, {}, "sm_20"}), "");
  EXPECT_NE(failure({"one", kTrivial, {}, {}, "compute_90a"}).find("compute_90"),
            std::string::npos);
}

TEST_F(Compiler, AnEmptySourceIsAnEmptyCubin) {
  EXPECT_TRUE(compile({"empty", ""}).kernels.empty());
}

TEST_F(Compiler, CompilesManyInOrderAndKeepsGoingPastErrors) {
  std::vector<CompileRequest> requests;
  for (int i = 0; i < 6; ++i)
    requests.push_back({"k" + std::to_string(i), "extern \"C\" __global__ void k" +
                                                     std::to_string(i) + "(int* p) { *p = 1; }"});
  requests[2].source = "this is no program";
  std::vector<std::size_t> seen;
  const auto results =
      compile_all(requests, 2, [&](std::size_t done, std::size_t total, std::size_t last) {
        EXPECT_EQ(total, 6u);
        seen.push_back(last);
        EXPECT_EQ(done, seen.size());
      });
  ASSERT_EQ(results.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    if (i == 2) {
      EXPECT_FALSE(results[i].cubin);
      EXPECT_NE(results[i].error.find("k2"), std::string::npos) << results[i].error;
    } else {
      ASSERT_TRUE(results[i].cubin) << results[i].error;
      EXPECT_TRUE(results[i].cubin->find("k" + std::to_string(i)));
    }
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}));
}

TEST_F(Compiler, GivesTheSameBytesInAChildProcess) {
  const std::vector<CompileRequest> requests(2, {"crowded", kSpilling});
  const auto results = compile_all(requests, 2);
  const Cubin here = compile(requests[0]);
  for (const CompileResult& result : results) {
    ASSERT_TRUE(result.cubin) << result.error;
    EXPECT_EQ(result.cubin->bytes, here.bytes);
  }
}

TEST_F(Compiler, VersionIsTheOneOfTheLibraryThatWasFound) {
  EXPECT_GE(nvrtc().major, 12);
  EXPECT_EQ(nvrtc_version(), std::to_string(nvrtc().major) + "." + std::to_string(nvrtc().minor));
  EXPECT_TRUE(std::filesystem::exists(nvrtc().path)) << nvrtc().path;
}

TEST(NvrtcSearch, AWishIsTheOnlyCandidate) {
  const std::string folder = ::testing::TempDir() + "ramp_nvrtc_search";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/libnvrtc.so.12") << "x";
  setenv("RAMP_NVRTC", folder.c_str(), 1);
  EXPECT_EQ(nvrtc_candidates(), (std::vector<std::string>{folder + "/libnvrtc.so.12"}));
  setenv("RAMP_NVRTC", "/nowhere/libnvrtc.so.13", 1);
  EXPECT_EQ(nvrtc_candidates(), (std::vector<std::string>{"/nowhere/libnvrtc.so.13"}));
  unsetenv("RAMP_NVRTC");
}

TEST(NvrtcSearch, FindsTheWheelInAPythonEnvironment) {
  const std::string root = ::testing::TempDir() + "ramp_nvrtc_venv";
  const std::string wheel = root + "/lib/python3.11/site-packages/nvidia/cu13/lib";
  std::filesystem::create_directories(wheel);
  std::ofstream(wheel + "/libnvrtc.so.13") << "x";
  setenv("VIRTUAL_ENV", root.c_str(), 1);
  const std::vector<std::string> found = nvrtc_candidates();
  unsetenv("VIRTUAL_ENV");
  EXPECT_NE(std::find(found.begin(), found.end(), wheel + "/libnvrtc.so.13"), found.end());
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace ramp::gpu
