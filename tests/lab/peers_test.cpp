// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/peers.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"

namespace ramp {
namespace {

constexpr const char* kPeers = R"({"meta": {}, "rows": [
  {"model": "olmoe", "layout": "ep8", "tokens": 128, "load": "uniform", "us": {"vllm": 50, "vllm_stock": 40}},
  {"model": "olmoe", "layout": "ep8", "tokens": 256, "load": "uniform", "us": {"vllm": 90, "ramp": 30}},
  {"model": "olmoe", "layout": "ep8", "tokens": 8, "load": "uniform", "us": {"vllm": 30}},
  {"model": "mixtral", "layout": "ep8", "tokens": 128, "load": "uniform", "us": {"vllm": 70}}]})";
constexpr const char* kRecords = R"({"rows": [
  {"model": "olmoe", "layout": "ep8", "rank": "heaviest", "tokens": 128, "load": "uniform", "mode": "fast",
   "policy": "menu", "us": 99},
  {"model": "olmoe", "layout": "ep8", "rank": "heaviest", "tokens": 128, "load": "uniform", "mode": "fast",
   "policy": "best", "us": 20},
  {"model": "olmoe", "layout": "ep8", "rank": "heaviest", "tokens": 8, "load": "uniform", "mode": "fast",
   "policy": "best", "us": 10}]})";

TEST(Peers, AreJoinedWithOurRecordsOfTheSameWorkUnlessTheyHoldOurLayer) {
  const std::vector<PeerLayer> layers = join_peers(kPeers, kRecords);
  ASSERT_EQ(layers.size(), 3u);               // nothing of ours for Mixtral
  EXPECT_DOUBLE_EQ(layers[0].triton_us, 40);  // the faster of the two
  EXPECT_DOUBLE_EQ(layers[0].ours_us, 20);    // the record of the best entry
  EXPECT_FALSE(layers[0].is_one_run);
  EXPECT_DOUBLE_EQ(layers[1].ours_us, 30);
  EXPECT_TRUE(layers[1].is_one_run);
  PaperRequest request;
  EXPECT_NEAR(over_triton(layers, "olmoe", "ep8", 128, request).value, std::sqrt(2.0 * 3.0), 1e-9);
  EXPECT_NEAR(over_triton(layers, "olmoe", "ep8", 0, request).value, std::cbrt(2.0 * 3.0 * 3.0),
              1e-9);
  EXPECT_FALSE(over_triton(layers, "olmoe", "ep16", 0, request).is_known());
}

TEST(Peers, WithoutAnyTheNoteSaysHow) {
  EXPECT_TRUE(join_peers("", "").empty());
  EXPECT_NE(peers_note({}).find("--peers"), std::string::npos);
}

TEST(Peers, RefuseWhatIsNoRecord) {
  EXPECT_THROW(join_peers("[1, 2]", ""), Error);
  EXPECT_THROW(join_peers("{\"rows\": [1]}", ""), Error);
  EXPECT_THROW(join_peers(kPeers, "not JSON"), Error);
}

TEST(Peers, LayerRecordsWithPeersHoldBothInOneRow) {
  const std::vector<PeerLayer> layers = join_peers(
      R"({"rows":[{"model":"olmoe","layout":"ep8","tokens":16,"load":"uniform","us":16.5,
          "peers":{"vllm":43.8,"deepgemm":50.3}}]})",
      "");
  ASSERT_EQ(layers.size(), 1u);
  EXPECT_EQ(layers[0].triton_us, 43.8);
  EXPECT_EQ(layers[0].ours_us, 16.5);
  EXPECT_TRUE(layers[0].is_one_run);
}

}  // namespace
}  // namespace ramp
