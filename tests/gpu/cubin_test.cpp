// SPDX-License-Identifier: Apache-2.0
// What is read out of the assembler's log, and cubins as bytes.
#include "gpu/cubin.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace ramp::gpu {
namespace {

// As ptxas 13.0 writes it: two entries and, between them, a function that one of them calls.
constexpr char kLog[] =
    "ptxas info    : 4 bytes gmem\n"
    "ptxas info    : Compiling entry function 'calm' for 'sm_90a'\n"
    "ptxas info    : Function properties for calm\n"
    "ptxas         .     32 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 16 registers, used 0 barriers, 32 bytes cumulative stack size\n"
    "ptxas info    : Compile time = 2.838 ms\n"
    "ptxas info    : Function properties for _Z6helperPfi\n"
    "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
    "ptxas info    : Compiling entry function 'full' for 'sm_90a'\n"
    "ptxas info    : Function properties for full\n"
    "ptxas         .     416 bytes stack frame, 792 bytes spill stores, 804 bytes spill loads\n"
    "ptxas info    : Used 168 registers, used 3 barriers, 416 bytes cumulative stack size, 1024 "
    "bytes smem\n";

Cubin read(const std::string& log) {
  Cubin cubin;
  read_resources(log, cubin);
  return cubin;
}

TEST(ResourceLog, GivesEveryFunctionItsOwnNumbers) {
  const Cubin cubin = read(kLog);
  ASSERT_EQ(cubin.kernels.size(), 3u);
  const KernelResources* full = cubin.find("full");
  ASSERT_TRUE(full);
  EXPECT_TRUE(full->entry);
  EXPECT_EQ(full->registers, 168);
  EXPECT_EQ(full->barriers, 3);
  EXPECT_EQ(full->stack, 416);
  EXPECT_EQ(full->spill_stores, 792);
  EXPECT_EQ(full->spill_loads, 804);
  EXPECT_EQ(full->smem_static, 1024);
  const KernelResources* calm = cubin.find("calm");
  ASSERT_TRUE(calm);
  EXPECT_EQ(calm->registers, 16);
  EXPECT_EQ(calm->smem_static, 0);
  EXPECT_EQ(calm->spill_stores, 0);
  const KernelResources* helper = cubin.find("_Z6helperPfi");
  ASSERT_TRUE(helper);
  EXPECT_FALSE(helper->entry);
  EXPECT_EQ(helper->spill_loads, 12) << "spills of called functions count too";
  EXPECT_FALSE(cubin.find("nothing"));
}

TEST(ResourceLog, SpillsAnywhereAreADefectThatIsNamed) {
  EXPECT_TRUE(read(kLog).spills());
  EXPECT_NE(read(kLog).defects().find("full spills registers (792 bytes stored, 804 loaded)"),
            std::string::npos);
  const std::string calm(
      kLog, std::strstr(kLog, "ptxas info    : Function properties for _Z6helper") - kLog);
  EXPECT_FALSE(read(calm).spills());
  EXPECT_EQ(read(calm).defects(), "");
}

TEST(ResourceLog, SerialisedWgmmaIsADefectWhateverItsNumber) {
  for (const char* number : {"C7510", "C7511", "C7514"}) {
    const Cubin cubin = read(std::string("ptxas info    : (") + number +
                             ") Potential Performance Loss: wgmma.mma_async instructions are "
                             "serialized due to x in the function 'f'\n");
    EXPECT_TRUE(cubin.wgmma_serialized) << number;
    EXPECT_NE(cubin.defects(), "") << number;
  }
  EXPECT_FALSE(read("ptxas info    : (C7519) warpgroup.arrive is injected in around line 92\n")
                   .wgmma_serialized);
}

TEST(ResourceLog, OddTextIsNoKernel) {
  for (const char* log :
       {"", "\n\n", "Used registers", "bytes stack frame", "x.cu(1): warning: Used 3 registers\n",
        "Compiling entry function '", "ptxas info : Function properties for "})
    EXPECT_FALSE(read(log).find("x")) << log;
  const Cubin huge = read(
      "ptxas info : Compiling entry function 'f' for 'sm_90a'\nUsed 99999999999999999999 "
      "registers\n");
  EXPECT_EQ(huge.find("f")->registers, 0) << "a number that doesn't fit is no number";
}

Cubin sample() {
  Cubin cubin = read(kLog);
  cubin.log = std::string(kLog) + "\xff\xfe not UTF-8";
  cubin.wgmma_serialized = true;
  cubin.seconds = 0.25;
  cubin.bytes = {'\177', 'E', 'L', 'F', '\0', '\n', '\xff'};
  return cubin;
}

TEST(CubinBytes, ComeBackAsTheyWere) {
  const Cubin cubin = sample();
  const auto back = decode(encode(cubin));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->bytes, cubin.bytes);
  EXPECT_TRUE(back->wgmma_serialized);
  EXPECT_EQ(back->seconds, 0.25);
  ASSERT_EQ(back->kernels.size(), 3u);
  EXPECT_EQ(back->find("full")->spill_loads, 804);
  EXPECT_EQ(back->find("full")->entry, true);
  EXPECT_EQ(back->find("_Z6helperPfi")->entry, false);
  EXPECT_EQ(back->log.substr(0, sizeof kLog - 1), kLog);
}

TEST(CubinBytes, AnyOtherLengthIsRefused) {
  const std::string whole = encode(sample());
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(decode(std::string_view(whole).substr(0, length))) << length;
  EXPECT_FALSE(decode(whole + "x"));
}

TEST(CubinBytes, LengthsThatLieAreRefusedWithoutAllocating) {
  std::string bytes = encode(sample());
  for (std::uint64_t lie :
       {std::uint64_t{0}, std::uint64_t{1} << 40, ~std::uint64_t{0}, ~std::uint64_t{0} - 7})
    for (std::size_t at : {0u, 8u}) {
      std::string changed = bytes;
      std::memcpy(changed.data() + at, &lie, sizeof lie);
      EXPECT_FALSE(decode(changed)) << lie << " at " << at;
    }
}

TEST(CubinBytes, JsonOfOtherTypesIsRefused) {
  const std::string json =
      R"({"kernels":[{"name":3}],"log":"","wgmma_serialized":false,"seconds":0})";
  const std::uint64_t lengths[2] = {json.size(), 0};
  EXPECT_FALSE(decode(std::string(reinterpret_cast<const char*>(lengths), sizeof lengths) + json));
}

}  // namespace
}  // namespace ramp::gpu
