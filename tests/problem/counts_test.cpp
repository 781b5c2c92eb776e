// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "problem/counts_import.hpp"
#include "problem/load.hpp"
#include "problem/trace_file.hpp"
#include "tests/problem/small_trace.hpp"

namespace ramp {
namespace {

std::string npy_i4(const std::vector<std::int64_t>& shape, const std::vector<int>& values) {
  ByteWriter data;
  for (const int value : values) data.put(static_cast<std::int32_t>(value));
  return npy_of("<i4", shape, data.take());
}

using Values = std::vector<std::int64_t>;

TEST(Counts, AreReadFromArraysZipsAndJson) {
  const std::vector<int> values = {3, 1, 0, 2, 2, 2, 1, 1, 4, 0, 3, 3};
  const Values want(values.begin(), values.end());
  const ExpertCounts npy = parse_counts(npy_i4({2, 2, 3}, values), "a.npy");
  EXPECT_EQ(npy.counts, want);
  EXPECT_EQ(std::tuple(npy.steps, npy.layers, npy.experts), std::tuple(2, 2, 3));
  EXPECT_EQ(parse_counts(npy_i4({4, 3}, values), "a.npy").layers, 4);
  // SGLang's stat mode after conversion, with an array beside that is none of ours.
  const std::string npz = zip_of(
      {{"rank.npy", npy_i4({1}, {0})}, {"logical_count.npy", npy_i4({2, 2, 3}, values)}}, true);
  EXPECT_EQ(parse_counts(npz, "a.npz").counts, want);
  EXPECT_EQ(
      parse_counts(R"({"logical_count": [[[3,1,0],[2,2,2]],[[1,1,4],[0,3.0,3]]]})", "j").counts,
      want);
  EXPECT_EQ(parse_counts("[[3,1],[0,2]]", "j").counts, (Values{3, 1, 0, 2}));
}

// Fortran order is a matter of strides.
TEST(Counts, KeepTheirAxesInFortranOrder) {
  ByteWriter data;
  for (const int value : {1, 4, 2, 5, 3, 6}) data.put(static_cast<std::int32_t>(value));
  const ExpertCounts counts = parse_counts(npy_of("<i4", {2, 3}, data.take(), true), "f.npy");
  EXPECT_EQ(counts.counts, (Values{1, 2, 3, 4, 5, 6}));
}

TEST(Counts, PhysicalOnesAreFoldedIntoLogicalOnes) {
  const std::string npz =
      zip_of({{"global_physical_count.npy", npy_i4({1, 2, 4}, {5, 1, 2, 4, 1, 2, 3, 6})},
              {"physical_to_logical_map.npy", npy_i4({2, 4}, {0, 1, 2, 0, 2, 1, 0, 2})}},
             false);
  const ExpertCounts counts = parse_counts(npz, "a.npz");
  EXPECT_EQ(counts.experts, 3);
  EXPECT_EQ(counts.counts, (Values{9, 1, 2, 3, 2, 7}));
  const ExpertCounts shared = parse_counts(
      R"({"expert_load_window": [[[1,2,3,4]]], "physical_to_logical_map": [1,0,1,1]})", "j");
  EXPECT_EQ(shared.counts, (Values{2, 8}));
}

TEST(Counts, RefuseWhatTheyAreNot) {
  for (const auto& [text, complaint] : std::vector<std::pair<std::string, std::string>>{
           {"", "logical_count"},
           {"hello", "logical_count"},
           {"[]", "1 axes"},
           {"[[],[]]", "length 0"},
           {"[1,2]", "1 axes"},
           {"[[1,2],[3]]", "equal length"},
           {"[[1,2],[3,\"x\"]]", "whole numbers"},
           {"[[1,2],[3,0.5]]", "whole numbers"},
           {"[[1,2],[3,-1]]", "-1"},
           {"[[1e300,2]]", "2^50"},
           {"[[[[[[1]]]]]]", "depth"},
           {R"({"other": [[1]]})", "without one"},
           {R"({"counts": [[1,2]], "physical_to_logical_map": [0]})", "[2]"},
           {R"({"counts": [[1,2]], "physical_to_logical_map": [0, 7]})", "7"}}) {
    const std::string error = error_of([&, t = text] { parse_counts(t, "bad"); });
    EXPECT_NE(error.find(complaint), std::string::npos) << text << ": " << error;
  }
}

TEST(Counts, APickleIsRefusedWithTheLineThatConvertsIt) {
  for (const std::string& pt :
       {zip_of({{"archive/data.pkl", "\x80\x02."}}, false), std::string("\x80\x02}q.")}) {
    const std::string error = error_of([&] { parse_counts(pt, "dump.pt"); });
    EXPECT_NE(error.find("weights_only=True"), std::string::npos) << error;
    EXPECT_NE(error.find("dump.pt"), std::string::npos) << error;
  }
}

// The tokens are dealt, so the loads are exact and rows are routing that a router could make.
TEST(Counts, OfPassesBecomeATraceWithTheSameLoads) {
  Random random(6);
  constexpr int kExperts = 12, kLayers = 3, kTopK = 4;
  ExpertCounts counts{"test", 5, kLayers, kExperts, {}};
  for (int step = 0; step < counts.steps; ++step)
    for (int layer = 0; layer < kLayers; ++layer) {
      // Step 3 is a buffer's unused end; a layer of step 1 saw fewer tokens.
      const int tokens = step == 3 ? 0 : 10 + 7 * step - (step == 1 && layer == 2 ? 4 : 0);
      const ExpertLoad load = draw_uniform_load(kExperts, kTopK, tokens, random);
      counts.counts.insert(counts.counts.end(), load.begin(), load.end());
    }
  ImportOptions options;
  options.info.top_k = kTopK;
  const RoutingTrace trace = trace_of_counts(counts, options).trace;
  ASSERT_EQ(trace.passes(), 4);
  EXPECT_NE(trace.info.made.find("loads are exact"), std::string::npos);
  for (int p = 0; p < 4; ++p) {
    std::vector<std::int64_t> tokens;
    for (std::int64_t t = trace.pass_offsets[p]; t < trace.pass_offsets[p + 1]; ++t)
      tokens.push_back(t);
    for (int layer = 0; layer < kLayers; ++layer) {
      const auto want = counts.of(p == 3 ? 4 : p, layer);
      const LayerLoad load = count_load(trace, tokens, layer);
      EXPECT_TRUE(std::equal(want.begin(), want.end(), load.experts.begin())) << p;
      for (const std::int64_t t : tokens) {
        const auto row = trace.row(t, layer);
        for (int j = 1; j < kTopK; ++j)
          ASSERT_TRUE(row[0] < 0 ? row[j] < 0 : row[j - 1] < row[j]) << "an expert twice";
      }
    }
  }
}

TEST(Counts, ThatAreNoPassesAreNoTrace) {
  ImportOptions options;
  options.info.top_k = 2;
  const auto complaint = [&](Values values) {
    return error_of([&] { trace_of_counts({"test", 1, 1, 4, std::move(values)}, options); });
  };
  EXPECT_NE(complaint({3, 1, 1, 0}).find("multiple of k"), std::string::npos);
  EXPECT_NE(complaint({5, 1, 0, 0}).find("5 tokens of one expert"), std::string::npos);
  EXPECT_NE(complaint({1 << 20, 1 << 20, 1 << 20, 1 << 20}).find("ramp placement make"),
            std::string::npos);
  EXPECT_NE(complaint({0, 0, 0, 0}).find("nothing but zeros"), std::string::npos);
  options.info.top_k = 0;
  EXPECT_NE(complaint({1, 1, 0, 0}).find("--k"), std::string::npos);
}

TEST(Counts, SumsAreWhatAPlacementExpects) {
  EXPECT_EQ(expected_loads(ExpertCounts{"test", 2, 1, 3, {1, 2, 3, 10, 20, 30}}),
            (ExpectedLoads{{11, 22, 33}}));
}

}  // namespace
}  // namespace ramp
