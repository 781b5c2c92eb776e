// SPDX-License-Identifier: Apache-2.0
// A menu becomes one translation unit or is refused with the reason; the tensor maps describe the
// weights as they lie.
#include "kernels/ffn/program.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "kernels/device_code.hpp"
#include "kernels/ffn/space.hpp"
#include "kernels/prepare/program.hpp"
#include "kernels/prepare/runs.h"
#include "kernels/prepare/state.h"

namespace ramp {
namespace {

FfnConfig narrow(int rows) {
  for (const FfnConfig& c : ffn_space())
    if (c.rows == rows && c.cols == 256 && c.split == 1) return c;
  return {};
}

std::string refusal(const std::vector<FfnConfig>& menu) {
  try {
    require_legal_menu(menu);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(Menu, OfLegalEntriesThatShareAnOccupancyIsTaken) {
  EXPECT_EQ(refusal({narrow(8)}), "");
  EXPECT_EQ(refusal({narrow(8), narrow(16), narrow(64)}), "");
}

TEST(Menu, IsRefusedWithTheEntryAndTheReason) {
  EXPECT_NE(refusal({}).find("0 entries"), std::string::npos);
  EXPECT_NE(refusal(std::vector<FfnConfig>(kMaxMenu + 1, narrow(8))).find("17 entries"),
            std::string::npos);
  FfnConfig wide{.rows = 8, .cols = 512};
  wide.stages = 4;
  EXPECT_NE(refusal({narrow(8), wide}).find("menu/1"), std::string::npos);
  EXPECT_NE(refusal({narrow(8), wide}).find("c256"), std::string::npos)
      << refusal({narrow(8), wide});
  FfnConfig illegal = narrow(16);
  illegal.stages = 1;
  EXPECT_NE(refusal({narrow(8), illegal}).find("menu/1"), std::string::npos);
  EXPECT_NE(refusal({narrow(8), illegal}).find("stages"), std::string::npos);
  EXPECT_NE(refusal({narrow(8), narrow(16), narrow(8)}).find("menu/0 is the same"),
            std::string::npos);
}

TEST(Menu, PrefillIsTheSmallestRingAndWhatRegistersHoldAndMemoryTheHungriestEntrys) {
  const FfnConfig small = narrow(8), large = narrow(64);
  ASSERT_GT(small.stages, large.stages);
  const FfnConfig menu[] = {small, large};
  EXPECT_EQ(deepest_prefill(menu, 2048), large.stages + ffn_early(large));
  EXPECT_EQ(deepest_prefill({menu, 1}, 2048), small.stages + ffn_early(small));
  EXPECT_EQ(deepest_prefill({menu, 1}, 256), 2 + 1) << "an item of two up units and one down";
  EXPECT_EQ(menu_shared_bytes(menu), std::max(ffn_shared_bytes(small), ffn_shared_bytes(large)));
}

TEST(Source, HoldsEveryEntryInOrderAndTheirNumber) {
  const FfnConfig menu[] = {narrow(8), narrow(32)};
  const std::string source = ffn_source(menu);
  const auto first = source.find(ffn_literal(menu[0])), second = source.find(ffn_literal(menu[1]));
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(second, std::string::npos);
  EXPECT_LT(first, second);
  EXPECT_NE(source.find("ffn<ramp::kMenu, 2>"), std::string::npos);
  EXPECT_NE(source.find("ramp_ffn("), std::string::npos);
}

TEST(Source, RequestsOfTwoMenusDifferAndIllegalOnesAreNotMade) {
  const FfnConfig a[] = {narrow(8), narrow(16)}, b[] = {narrow(16), narrow(8)};
  EXPECT_NE(ffn_request(a).source, ffn_request(b).source) << "the order is the choice's index";
  FfnConfig illegal = narrow(8);
  illegal.rows = 7;
  EXPECT_THROW(ffn_request({&illegal, 1}), Error);
}

TEST(Source, RequestsBringTheHeadersTheyInclude) {
  for (const gpu::CompileRequest& request :
       {prepare_request(), ffn_request(std::vector<FfnConfig>{narrow(8)})}) {
    const auto at = request.source.find("#include \"") + 10;
    const std::string header = request.source.substr(at, request.source.find('"', at) - at);
    bool found = false;
    for (const auto& [name, text] : request.headers) found |= name == header && !text.empty();
    EXPECT_TRUE(found) << header;
  }
}

TEST(SourcesHash, IsTheSameEveryTimeAndLooksLikeOne) {
  EXPECT_EQ(device_sources_hash(), device_sources_hash());
  EXPECT_EQ(device_sources_hash().rfind("xxh3-128:", 0), 0u);
  EXPECT_EQ(device_sources_hash().size(), 9 + 32u);
}

TEST(Clean, SpillsAndSerialisedWgmmaAreRefusedWithTheReason) {
  gpu::Cubin cubin;
  gpu::read_resources(
      "ptxas info    : Compiling entry function 'ramp_ffn' for 'sm_90a'\n"
      "ptxas info    : Function properties for ramp_ffn\n"
      "    24 bytes stack frame, 24 bytes spill stores, 28 bytes spill loads\n"
      "ptxas info    : Used 168 registers\n",
      cubin);
  const std::string spills = error_of([&] { require_clean(cubin, "x", "ramp_ffn", 168); });
  EXPECT_NE(spills.find("24 bytes"), std::string::npos) << spills;

  gpu::Cubin slow;
  gpu::read_resources(
      "ptxas info    : Compiling entry function 'ramp_ffn' for 'sm_90a'\n"
      "ptxas info    : Function properties for ramp_ffn\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 168 registers\n",
      slow);
  EXPECT_EQ(error_of([&] { require_clean(slow, "x", "ramp_ffn", 168); }), "");
  EXPECT_NE(error_of([&] { require_clean(slow, "x", "ramp_ffn", 160); }), "") << "registers";
  gpu::read_resources(
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized due to x in the function 'ramp_ffn'\n",
      slow);
  EXPECT_NE(error_of([&] { require_clean(slow, "x", "ramp_ffn", 168); }), "");
}

TEST(WeightMaps, DescribeTheWeightsAsTheyLie) {
  const LocalShape shape{16, 8, 2048, 768};
  const gpu::TensorMapSpec w13 = w13_map_spec(shape, 1 << 20, {}),
                           w2 = w2_map_spec(shape, 1 << 20, {});
  EXPECT_EQ(w13.rank, 4);
  EXPECT_EQ(w13.dims, (std::array<std::uint64_t, 5>{2048, 768, 2, 16, 0}));
  EXPECT_EQ(w13.strides_bytes, (std::array<std::uint64_t, 4>{2048, 768 * 2048, 2 * 768 * 2048, 0}));
  EXPECT_EQ(w2.rank, 3);
  EXPECT_EQ(w2.dims, (std::array<std::uint64_t, 5>{768, 2048, 16, 0, 0}));
  EXPECT_EQ(w2.strides_bytes, (std::array<std::uint64_t, 4>{768, 768 * 2048, 0, 0}));
  for (const gpu::TensorMapSpec& spec : {w13, w2}) {
    std::uint64_t box = 1;
    for (int i = 0; i < spec.rank; ++i) box *= spec.box[i];
    EXPECT_EQ(box, static_cast<std::uint64_t>(kFfnUnitBytes)) << "one copy fills one unit";
    EXPECT_NO_THROW(gpu::validate(spec, "weights"));
  }
}

TEST(WeightMaps, AClustersBlocksTakePartsOfTheRowsAndMoreOfTheColumns) {
  for (const int split : kFfnSplits) {
    const gpu::TensorMapSpec w13 = w13_map_spec({16, 8, 2048, 768}, 1 << 20, {.split = split});
    EXPECT_EQ(w13.box[1], static_cast<std::uint32_t>(ffn_own_columns({.split = split})));
    EXPECT_EQ(w13.box[0] * w13.box[1] * w13.box[2] * static_cast<std::uint32_t>(split),
              static_cast<std::uint32_t>(kFfnUnitBytes));
  }
}

TEST(WeightMaps, BlocksThatShareWeightsBringHalfAUnitEach) {
  const FfnConfig pairs{
      .rows = 128, .stages = 3, .staging = 1, .split = 2, .grouped = 1, .topology = kF3};
  const LocalShape shape{16, 8, 2048, 768};
  for (const gpu::TensorMapSpec& spec :
       {w13_map_spec(shape, 1 << 20, pairs), w2_map_spec(shape, 1 << 20, pairs)}) {
    std::uint32_t box = 1;
    for (std::size_t i = 0; i < static_cast<std::size_t>(spec.rank); ++i) box *= spec.box[i];
    EXPECT_EQ(2 * box, static_cast<std::uint32_t>(kFfnUnitBytes));
    EXPECT_NO_THROW(gpu::validate(spec, "weights"));
  }
}

TEST(RowMaps, ABoxIsAFewRowsOfOneBlockOfColumns) {
  const gpu::TensorMapSpec spec = rows_map_spec(1 << 20, 4096, 1152);
  EXPECT_EQ(spec.box[0] * spec.box[1], static_cast<std::uint32_t>(kScaleGroup * kPhasedBoxRows));
  EXPECT_EQ(spec.dims[1], 4096u);
  EXPECT_NO_THROW(gpu::validate(spec, "rows"));
  for (const int rows : {64, 128}) EXPECT_EQ(rows % kPhasedBoxRows, 0);
}

// What a GPU gets of a call's pairs decides, not how many there are.
TEST(RowMaps, ARowForEachPairPaysByWhatIsReadAgain) {
  // Eight experts of h = 1024 on one of eight GPUs: full tiles.
  EXPECT_FALSE(pays_row_a_pair(1024, 8, 512, 512));
  EXPECT_TRUE(pays_row_a_pair(1024, 8, 1024, 1024));
  // Narrow ones, or many: when there is much to read again.
  EXPECT_FALSE(pays_row_a_pair(768, 16, 2048, 2048));
  EXPECT_FALSE(pays_row_a_pair(2048, 32, 1024, 1024));
  EXPECT_TRUE(pays_row_a_pair(2048, 32, 2048, 2048));
  // One GPU: eight rows a token.
  EXPECT_FALSE(pays_row_a_pair(1024, 64, 8192, 1024));
  EXPECT_TRUE(pays_row_a_pair(1024, 64, 32768, 4096));
  EXPECT_TRUE(pays_row_a_pair(1 << 20, 1, 1 << 20, 1 << 20)) << "no overflow";
}

TEST(WeightMaps, StridesHoldWhatNoIntCould) {
  const LocalShape large{512, 8, 16384, 16384};
  EXPECT_EQ(w13_map_spec(large, 256, {}).strides_bytes[2], 2ull * 16384 * 16384);
  EXPECT_NO_THROW(gpu::validate(w13_map_spec(large, 256, {}), "weights/w13"));
}

TEST(WeightMaps, MisalignedAddressesAreRefusedByName) {
  const LocalShape shape{16, 8, 2048, 768};
  const std::string said =
      error_of([&] { gpu::validate(w13_map_spec(shape, (1 << 20) + 8, {}), "weights/w13"); });
  EXPECT_NE(said.find("weights/w13"), std::string::npos) << said;
  EXPECT_NE(said.find("16"), std::string::npos) << said;
}

TEST(FfnShape, IsRefusedByItsFieldWithTheNearestThatRuns) {
  EXPECT_EQ(error_of([] { require_ffn_shape({16, 8, 2048, 768}); }), "");
  EXPECT_EQ(error_of([] { require_ffn_shape({15, 4, 2048, 1408}); }), "") << "Qwen1.5 on 4 GPUs";
  const std::string hidden = error_of([] { require_ffn_shape({32, 4, 2880, 2880}); });
  EXPECT_NE(hidden.find("shape/hidden: got 2880"), std::string::npos) << hidden;
  EXPECT_NE(hidden.find("2816 and 2944"), std::string::npos) << hidden;
  EXPECT_NE(error_of([] {
              require_ffn_shape({16, 8, 2048, 192});
            }).find("shape/intermediate"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              require_ffn_shape({16, 33, 2048, 768});
            }).find("shape/top_k"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              require_ffn_shape({513, 8, 2048, 768});
            }).find("shape/experts"),
            std::string::npos);
  EXPECT_NE(error_of([] { require_ffn_shape({16, 8, 0, 768}); }), "");
  EXPECT_NE(error_of([] { require_ffn_shape({16, 8, 2048, -128}); }), "");
}

}  // namespace
}  // namespace ramp
