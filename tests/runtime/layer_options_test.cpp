// SPDX-License-Identifier: Apache-2.0
// What a layer is refused for before a GPU is asked: every refusal names the option, the value and
// what is allowed.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "choice/measured.hpp"
#include "kernels/ffn/space.hpp"
#include "problem/catalog.hpp"
#include "problem/layout.hpp"
#include "runtime/default_menu.hpp"
#include "runtime/layer.hpp"

namespace ramp {
namespace {

LayerOptions good() {
  LayerOptions o;
  o.shape = {16, 8, 2048, 768};
  o.experts = 128;
  o.first_expert = 32;
  return with_default_menu(o, find_gpu("h200"));
}

std::string refusal(const std::function<void(LayerOptions&)>& change) {
  LayerOptions o = good();
  change(o);
  try {
    check_layer_options(o);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

void expect_refused(const std::string& field, const std::function<void(LayerOptions&)>& change) {
  const std::string said = refusal(change);
  EXPECT_EQ(said.rfind(field + ":", 0), 0u) << field << " expected, said: " << said;
  EXPECT_NE(said.find("allowed:"), std::string::npos) << said;
}

TEST(LayerOptions, OfALegalShareAreTaken) {
  EXPECT_EQ(refusal([](LayerOptions&) {}), "");
  EXPECT_EQ(refusal([](LayerOptions& o) { o.first_expert = 112; }), "") << "the last share";
  EXPECT_EQ(refusal([](LayerOptions& o) {
              o.experts = 16;
              o.first_expert = 0;
            }),
            "")
      << "all experts here";
}

TEST(LayerOptions, ShapesThatTheKernelsCannotRunAreRefused) {
  expect_refused("shape/hidden", [](LayerOptions& o) { o.shape.hidden = 2880; });
  expect_refused("shape/hidden", [](LayerOptions& o) { o.shape.hidden = 0; });
  expect_refused("shape/intermediate", [](LayerOptions& o) { o.shape.intermediate = 192; });
  expect_refused("shape/top_k", [](LayerOptions& o) { o.shape.top_k = 33; });
  expect_refused("shape/top_k", [](LayerOptions& o) { o.shape.top_k = 0; });
  expect_refused("shape/experts", [](LayerOptions& o) { o.shape.experts = 513; });
}

TEST(LayerOptions, ASharesPlaceMustLieInTheModel) {
  expect_refused("first_expert", [](LayerOptions& o) { o.first_expert = 113; });
  expect_refused("first_expert", [](LayerOptions& o) { o.first_expert = -1; });
  expect_refused("experts", [](LayerOptions& o) { o.experts = 15; });
  expect_refused("experts", [](LayerOptions& o) { o.experts = 1 << 20; });
}

TEST(LayerOptions, AnExpertMapIsRightOrNotTaken) {
  const auto map = [](LayerOptions& o) {
    o.expert_map.assign(128, -1);
    for (int e = 0; e < 16; ++e) o.expert_map[e * 8] = e;
  };
  EXPECT_EQ(refusal(map), "");
  expect_refused("expert_map", [&](LayerOptions& o) { map(o), o.expert_map.pop_back(); });
  expect_refused("expert_map/3", [&](LayerOptions& o) { map(o), o.expert_map[3] = 16; });
  expect_refused("expert_map/3", [&](LayerOptions& o) { map(o), o.expert_map[3] = -2; });
  expect_refused("expert_map/9", [&](LayerOptions& o) { map(o), o.expert_map[9] = 1; });
}

TEST(LayerOptions, MenuAndThetaMustAgree) {
  expect_refused("menu", [](LayerOptions& o) { o.menu.clear(); });
  expect_refused("menu/0", [](LayerOptions& o) { o.menu[0].stages = 1; });
  expect_refused("theta", [](LayerOptions& o) { o.theta.pop_back(); });
  expect_refused("theta/1", [](LayerOptions& o) { o.theta[1].tile = std::nanf(""); });
  expect_refused("theta/0", [](LayerOptions& o) { o.theta[0].fixed = -1; });
  expect_refused("theta/0", [](LayerOptions& o) { o.theta[0].wave = HUGE_VALF; });
}

// An item of f3 keeps the weights' scales of all its units.
TEST(LayerOptions, TwoPhasesTakeDimensionsUpTo32768) {
  const auto of = [](int hidden, int intermediate) {
    return [=](LayerOptions& o) {
      o.shape.hidden = hidden, o.shape.intermediate = intermediate;
      o.menu = {FfnConfig{.rows = 64, .stages = 4, .staging = 1, .topology = kF3}};
      o.theta.resize(1);
    };
  };
  expect_refused("menu/0", of(2048, 32768 + 128));
  expect_refused("menu/0", of(32768 + 128, 2048));
  EXPECT_EQ(refusal(of(32768, 32768)), "");
}

TEST(LayerOptions, AClusterNeedsAPartOfTheHiddenDimensionForEveryBlock) {
  for (const FfnConfig& c : ffn_space())
    if (c.split == 4) {
      expect_refused("menu/0", [&](LayerOptions& o) {
        o.shape.hidden = 256;
        o.menu = {c};
        o.theta.resize(1);
      });
      return;
    }
}

TEST(Weights, MustBeThereAndAligned) {
  const auto said = [](DeviceWeights w) -> std::string {
    try {
      check_device_weights(w);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  };
  EXPECT_EQ(said({4096, 4096, 4096, 4096}), "");
  EXPECT_EQ(said({16, 4, 16, 4}), "");
  EXPECT_NE(said({0, 4, 16, 4}).find("weights/w13: got null"), std::string::npos);
  EXPECT_NE(said({24, 4, 16, 4}).find("weights/w13: got 0x18"), std::string::npos);
  EXPECT_NE(said({16, 6, 16, 4}).find("weights/s13"), std::string::npos);
  EXPECT_NE(said({16, 4, 8, 4}).find("weights/w2"), std::string::npos);
  EXPECT_NE(said({16, 4, 16, 1}).find("weights/s2"), std::string::npos);
}

TEST(ContiguousMap, NeedsNoLookUp) {
  EXPECT_EQ(contiguous_first(std::vector<int>{-1, -1, 0, 1, 2, -1}, 3), 2);
  EXPECT_EQ(contiguous_first(std::vector<int>{0, 1, 2}, 3), 0);
  EXPECT_EQ(contiguous_first(std::vector<int>{-1, 0, 1, 2}, 3), 1);
  for (const std::vector<int>& other : {std::vector<int>{-1, 0, 1},
                                        {0, 2, 1},
                                        {0, -1, 1, 2},
                                        {1, 2, 0},
                                        {-1, -1, -1},
                                        {0, 1, 2, 0},
                                        {2, 0, 1, 2},
                                        {}})
    EXPECT_EQ(contiguous_first(other, 3), -1);
}

TEST(ContiguousMap, EveryContiguousLayoutIsSeenAsOne) {
  for (int gpus : {1, 2, 4, 8})
    for (int gpu = 0; gpu < gpus; ++gpu) {
      const Layout layout{.kind = Layout::Kind::kExpert, .gpus = gpus};
      const std::vector<int> local = local_experts(layout, 60, gpu);
      EXPECT_EQ(contiguous_first(expert_map(layout, 60, gpu), static_cast<int>(local.size())),
                local.front())
          << gpus << " GPUs, number " << gpu;
    }
}

TEST(MaxTokens, KeepsCountsAndTilesWithinThirtyTwoBits) {
  EXPECT_EQ(max_tokens_of({16, 8, 2048, 768}), kMaxPairs / 8);
  EXPECT_EQ(max_tokens_of({16, 1, 2048, 768}), kMaxPairs);
  for (int h : {128, 16384}) {
    const LocalShape shape{8, 8, 2048, h};
    const long long tiles = static_cast<long long>(max_tokens_of(shape)) * shape.top_k;
    EXPECT_LT(tiles * ffn_slices(FfnConfig{}, h), 1LL << 31);
  }
}

TEST(DefaultMenu, IsLegalAscendingAndOfOneOccupancy) {
  const std::vector<FfnConfig> menu = default_menu();
  ASSERT_EQ(menu.size(), 6u);
  EXPECT_NO_THROW(require_legal_menu(menu));
  const int rows[] = {8, 16, 24, 32, 48, 64};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(menu[i].rows, rows[i]);
}

int chosen(const LayerOptions& o, const std::vector<int>& load) {
  std::vector<float> us;
  for (std::size_t i = 0; i < o.menu.size(); ++i)
    us.push_back(predict_us(o.theta[i],
                            features(ffn_grid(o.menu[i], o.shape.hidden, o.shape.intermediate, 132),
                                     load.data(), static_cast<int>(load.size()))));
  return o.menu[cheapest(us.data(), static_cast<int>(us.size()))].rows;
}

TEST(PlannedTheta, IsPositiveAndChargesAnExpertItsWeightsAtTheStreamRate) {
  const LayerOptions o = good();
  for (const Theta& t : o.theta) {
    EXPECT_GT(t.fixed, 0);
    EXPECT_GT(t.wave, 0);
    EXPECT_GT(t.tile, 0);
    EXPECT_NEAR(t.expert, 3 * 2048 * 768 / 4.58e6, 1e-3);
  }
}

TEST(PlannedTheta, ALargerTileTakesLongerButLessARow) {
  const LayerOptions o = good();
  for (std::size_t i = 1; i < o.theta.size(); ++i) {
    EXPECT_GT(o.theta[i].wave, o.theta[i - 1].wave);
    EXPECT_LT(o.theta[i].wave / o.menu[i].rows, o.theta[i - 1].wave / o.menu[i - 1].rows * 1.001f);
  }
}

TEST(PlannedTheta, PicksSmallTilesForDecodeAndLargeOnesForPrefill) {
  const LayerOptions o = good();
  EXPECT_EQ(chosen(o, std::vector<int>(16, 1)), 8);
  EXPECT_EQ(chosen(o, std::vector<int>(16, 8)), 8);
  EXPECT_GE(chosen(o, std::vector<int>(16, 256)), 32);
  EXPECT_GT(chosen(o, std::vector<int>(16, 64)), 8);
}

// ---- calls

LayerCall by_ids() {
  LayerCall call;
  call.tokens = 64;
  call.hidden = 1 << 20;
  call.ids = 4096;
  call.output = 1 << 24;
  call.workspace = 1 << 28;
  return call;
}

// As low-latency all-to-all kernels deliver them: e4m3 in slots, scales column by column.
LayerCall in_slots() {
  LayerCall call = by_ids();
  call.ids = 0;
  call.ready_counts = 4096;
  call.slots = 256;
  call.tokens = good().shape.experts * call.slots;
  call.output = 1 << 27;
  call.hidden_scales = 8192;
  call.scale_strides = {256 * 16, 1, 256};
  return call;
}

void expect_call_refused(const std::string& field, const std::string& part, LayerCall call,
                         const std::function<void(LayerCall&)>& change) {
  EXPECT_NO_THROW(check_layer_call(good(), call));
  change(call);
  try {
    check_layer_call(good(), call);
    ADD_FAILURE() << field << " was taken";
  } catch (const Error& e) {
    const std::string said = e.what();
    EXPECT_EQ(said.rfind(field + ":", 0), 0u) << field << " expected, said: " << said;
    EXPECT_NE(said.find(part), std::string::npos) << said;
  }
}

TEST(LayerCalls, OfEveryFormAreTaken) {
  EXPECT_NO_THROW(check_layer_call(good(), by_ids()));
  EXPECT_NO_THROW(check_layer_call(good(), in_slots()));
  LayerCall call = by_ids();
  call.hidden_scales = 8192;
  EXPECT_NO_THROW(check_layer_call(good(), call)) << "quantised rows with ids";
  call = in_slots();
  call.hidden_scales = 0;
  call.scale_strides = {};
  EXPECT_NO_THROW(check_layer_call(good(), call)) << "bf16 rows in slots";
  call.expected_rows = 100;
  EXPECT_NO_THROW(check_layer_call(good(), call));
  call.slots = 0, call.tokens = kMaxPairs;
  call.output = call.hidden + (std::uint64_t{1} << 40);
  EXPECT_NO_THROW(check_layer_call(good(), call)) << "ready rows are one pair each";
}

TEST(LayerCalls, WithWrongPlacesAreRefused) {
  const auto refused = [](const std::string& field, const std::string& part, const auto& change) {
    expect_call_refused(field, part, in_slots(), change);
  };
  refused("slots", "-1", [](LayerCall& c) { c.slots = -1; });
  refused("slots", "beside ids", [](LayerCall& c) { std::swap(c.ids, c.ready_counts); });
  refused("tokens", "16 local experts x 256 slots = 4096", [](LayerCall& c) { --c.tokens; });
  refused("tokens", "= 4112", [](LayerCall& c) { ++c.slots; });
  refused("tokens", "0 to", [](LayerCall& c) { c.tokens = kMaxPairs + 1; });
  refused("expected_rows", "-5", [](LayerCall& c) { c.expected_rows = -5; });
  expect_call_refused("expected_rows", "7", by_ids(), [](LayerCall& c) { c.expected_rows = 7; });
  refused("ready_counts", "4 bytes", [](LayerCall& c) { c.ready_counts = 4098; });
}

TEST(LayerCalls, WithWrongScalesAreRefused) {
  const auto refused = [](const std::string& field, const std::string& part, const auto& change) {
    expect_call_refused(field, part, in_slots(), change);
  };
  refused("scale_strides", "without hidden_scales", [](LayerCall& c) { c.hidden_scales = 0; });
  refused("hidden_scales", "0x2002", [](LayerCall& c) { c.hidden_scales = 8194; });
  refused("hidden", "16 bytes", [](LayerCall& c) { c.hidden += 8; });
  refused("scale_strides", "4096, 0, 256", [](LayerCall& c) { c.scale_strides.row = 0; });
  refused("scale_strides", "4096, 1, -1", [](LayerCall& c) { c.scale_strides.group = -1; });
  refused("scale_strides", "0, 1, 256", [](LayerCall& c) { c.scale_strides.expert = 0; });
  refused("output", "overlaps hidden", [](LayerCall& c) {
    c.output = c.hidden + static_cast<std::uint64_t>(c.tokens) * 2048 - 16;
  });
}

// The output may stand right behind rows of one byte.
TEST(LayerCalls, QuantisedRowsTakeHalfTheMemory) {
  LayerCall call = in_slots();
  call.output = call.hidden + static_cast<std::uint64_t>(call.tokens) * 2048;
  EXPECT_NO_THROW(check_layer_call(good(), call));
}

}  // namespace
}  // namespace ramp
