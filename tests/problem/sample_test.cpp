// SPDX-License-Identifier: Apache-2.0
#include "problem/sample.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "problem/catalog.hpp"
#include "problem/imbalance.hpp"
#include "problem/placement.hpp"
#include "problem/trace_file.hpp"
#include "tests/problem/small_trace.hpp"

namespace ramp {
namespace {

constexpr MoeShape kShape{16, 3, 256, 256};

SampleOptions few() {
  SampleOptions options;
  options.train_passes = 60;
  options.test_passes = 30;
  return options;
}

// Every id of every token lands on one GPU: nothing is lost and nothing is counted twice.
TEST(Sample, CountsAddUpToTheTokensTimesK) {
  RoutingTrace trace = request_trace(std::vector<int>(40, 120));
  Random random(1);
  trace.ids = random_ids(trace.tokens() * 2, 16, 3, random);  // without padding
  for (const char* name : {"ep1", "ep4", "ep5", "ep16", "tp2"}) {
    const Layout layout = parse_layout(name);
    const SampledTraffic traffic = sample_traffic(trace, kShape, layout, few());
    EXPECT_EQ(traffic.gpus, layout.gpus);
    EXPECT_EQ(traffic.passes.size(), 60u + 30 + 18);
    for (const SampledPass& pass : traffic.passes) {
      ASSERT_EQ(pass.counts.size(), static_cast<std::size_t>(layout.gpus));
      long long pairs = 0;
      for (int gpu = 0; gpu < layout.gpus; ++gpu) {
        ASSERT_EQ(pass.counts[gpu].size(), local_experts(layout, 16, gpu).size());
        pairs += pairs_of(pass.counts[gpu]);
      }
      ASSERT_EQ(pairs, 3LL * pass.tokens * (layout.is_expert_parallel() ? 1 : layout.gpus));
    }
  }
}

TEST(Sample, PaddingIsNoToken) {
  RoutingTrace trace = request_trace({4}, 1, 16, 3, 1, {"math"});
  trace.requests[0].prompt = 0;
  trace.ids.assign(12, -1);
  trace.ids[0] = 5;
  const LayerLoad load = count_load(trace, std::vector<std::int64_t>{0, 1, 2, 3}, 0);
  EXPECT_EQ(load.tokens, 1);
  EXPECT_EQ(pairs_of(load.experts), 1);
  EXPECT_THROW(count_load(trace, std::vector<std::int64_t>{0}, 1), Error);
}

TEST(Sample, SpreadsOverTheSizes) {
  const RoutingTrace trace = request_trace(std::vector<int>(200, 120));
  SampleOptions options;
  options.train_passes = 300;
  options.test_passes = 0;
  options.uniform_draws = 0;
  std::map<int, int> of_size;
  for (const SampledPass& pass :
       sample_traffic(trace, kShape, parse_layout("ep4"), options).passes) {
    ASSERT_GE(pass.tokens, 1);
    ASSERT_LE(pass.tokens, 4096);
    ++of_size[pass.tokens >= 1024  ? 1024
              : pass.tokens >= 256 ? 256
              : pass.tokens >= 64  ? 64
              : pass.tokens >= 8   ? 8
                                   : 1];
  }
  for (const int size : {1, 8, 64, 256, 1024}) EXPECT_GE(of_size[size], 15) << size;
}

TEST(Sample, TheRolesShareNoRequest) {
  // Each request routes to one expert set of its own, so a load shows which requests it holds.
  RoutingTrace trace = request_trace(std::vector<int>(8, 200), 1, 16, 1, 1, {"math"});
  for (std::int64_t t = 0; t < trace.tokens(); ++t)
    trace.ids[t] = static_cast<std::int16_t>(t / 200);
  const SampledTraffic traffic =
      sample_traffic(trace, {16, 1, 256, 256}, parse_layout("ep1"), few());
  std::set<int> train, test;
  for (const SampledPass& pass : traffic.passes)
    for (int e = 0; e < 8; ++e)
      if (pass.role != Traffic::kUniform && pass.counts[0][e] > 0)
        (pass.role == Traffic::kTrain ? train : test).insert(e);
  EXPECT_EQ(train.size(), 4u);
  EXPECT_EQ(test.size(), 4u);
  for (const int e : test) EXPECT_FALSE(train.contains(e));
  EXPECT_EQ(traffic.split, "4 of 8 requests held out");
}

TEST(Sample, HoldsOutADomain) {
  const RoutingTrace trace = request_trace(std::vector<int>(30, 50));
  SampleOptions options = few();
  options.held_out_domain = "code";
  for (const SampledPass& pass :
       sample_traffic(trace, kShape, parse_layout("ep4"), options).passes) {
    if (pass.role == Traffic::kTest) {
      EXPECT_EQ(pass.domain, "code");
    }
    if (pass.role == Traffic::kTrain) {
      EXPECT_EQ(pass.domain, "math");
    }
  }
}

TEST(Sample, UniformRoutingStandsAtVllms18Sizes) {
  const RoutingTrace trace = request_trace(std::vector<int>(10, 50));
  SampleOptions options = few();
  options.uniform_draws = 3;
  std::map<int, int> sizes;
  for (const SampledPass& pass : sample_traffic(trace, kShape, parse_layout("ep4"), options).passes)
    if (pass.role == Traffic::kUniform) {
      ++sizes[pass.tokens];
      EXPECT_EQ(pass.layer, -1);
    }
  EXPECT_EQ(sizes.size(), 18u);
  EXPECT_EQ(sizes.begin()->first, 1);
  EXPECT_EQ(sizes.rbegin()->first, 4096);
  for (const auto& [size, draws] : sizes) EXPECT_EQ(draws, 3) << size;
}

// Chi-square-like: every expert within five standard deviations of its share.
TEST(Sample, UniformRoutingIsUniformAndWithoutRepeats) {
  Random random(8);
  const ExpertLoad load = draw_uniform_load(60, 4, 30000, random);
  EXPECT_EQ(pairs_of(load), 120000);
  for (const int n : load) EXPECT_NEAR(n, 2000, 5 * std::sqrt(2000.0));
  for (const int n : draw_uniform_load(8, 8, 10, random))
    EXPECT_EQ(n, 10);  // k = E: each exactly once a token
}

TEST(Sample, IsDeterministicBySeed) {
  const RoutingTrace trace = request_trace(std::vector<int>(40, 60));
  auto tokens_of = [&](std::uint64_t seed) {
    SampleOptions options = few();
    options.seed = seed;
    std::vector<ExpertLoad> loads;
    for (const SampledPass& pass :
         sample_traffic(trace, kShape, parse_layout("ep4"), options).passes)
      loads.insert(loads.end(), pass.counts.begin(), pass.counts.end());
    return loads;
  };
  EXPECT_EQ(tokens_of(3), tokens_of(3));
  EXPECT_NE(tokens_of(3), tokens_of(4));
}

TEST(Sample, UsesEveryLayerAlikeAndOnlyThoseAskedFor) {
  const RoutingTrace trace = request_trace(std::vector<int>(40, 60), 1, 16, 3, 5);
  SampleOptions options = few();
  std::map<int, int> layers;
  for (const SampledPass& pass : sample_traffic(trace, kShape, parse_layout("ep4"), options).passes)
    ++layers[pass.layer];
  for (int layer = 3; layer < 8; ++layer) EXPECT_NEAR(layers[layer], 18, 2) << layer;
  options.layers = {4};
  for (const SampledPass& pass : sample_traffic(trace, kShape, parse_layout("ep4"), options).passes)
    if (pass.role != Traffic::kUniform) {
      EXPECT_EQ(pass.layer, 7);
    }
}

TEST(Sample, TakesRecordedPassesAsTheyAre) {
  const RoutingTrace trace = pass_trace(8, 5, 10);
  SampleOptions options;
  options.train_passes = 1000;  // more than there are: each pass and layer once
  options.test_passes = 1000;
  options.uniform_draws = 0;
  const SampledTraffic traffic = sample_traffic(trace, kShape, parse_layout("ep4"), options);
  EXPECT_EQ(traffic.passes.size(), 8u * 10 * 2);
  for (const SampledPass& pass : traffic.passes)
    EXPECT_TRUE(pass.tokens == 5 || pass.tokens == 10) << pass.tokens;
}

TEST(Sample, RefusesWhatDoesNotFit) {
  const RoutingTrace trace = request_trace(std::vector<int>(10, 50));
  const Layout ep4 = parse_layout("ep4");
  EXPECT_THROW(sample_traffic(trace, {32, 3, 256, 256}, ep4, few()), Error);
  EXPECT_THROW(sample_traffic(trace, {16, 2, 256, 256}, ep4, few()), Error);
  EXPECT_THROW(sample_traffic(trace, kShape, parse_layout("ep32"), few()), Error);
  EXPECT_THROW(sample_traffic(trace, kShape, parse_layout("tp4"), few()), Error);  // 64-wide slices
  RoutingTrace neither = trace;
  neither.requests.clear();
  const std::string error = error_of([&] { sample_traffic(neither, kShape, ep4, few()); });
  EXPECT_NE(error.find("request_offsets"), std::string::npos) << error;
  RoutingTrace physical = trace;
  physical.info.id_space = IdSpace::kPhysical;
  EXPECT_THROW(sample_traffic(physical, kShape, ep4, few()), Error);
  SampleOptions bad = few();
  bad.layers = {9};
  EXPECT_THROW(sample_traffic(trace, kShape, ep4, bad), Error);
  bad = few();
  bad.concurrency = {};
  EXPECT_THROW(sample_traffic(trace, kShape, ep4, bad), Error);
}

TEST(Imbalance, IsTheMostLoadedGpuOverTheMean) {
  const std::vector<ExpertLoad> gpus = {{6, 0}, {2, 1}, {0, 0}, {3, 0}};
  EXPECT_DOUBLE_EQ(imbalance_of(gpus), 2.0);
  EXPECT_DOUBLE_EQ(imbalance_of(std::vector<ExpertLoad>{{0}, {0}}), 1.0);
  EXPECT_EQ(active_experts(gpus[1]), 2);
}

// Section 2.3 of the paper: 16 experts, 128 tokens, as 8 each or as skewed; tiles of 8 rows fit the
// first exactly.
TEST(Imbalance, PaddingIsRowsComputedOverRowsUsed) {
  const ExpertLoad even(16, 8);
  EXPECT_DOUBLE_EQ(padding_factor(even, 8), 1.0);
  EXPECT_DOUBLE_EQ(padding_factor(even, 32), 4.0);
  EXPECT_DOUBLE_EQ(padding_factor({9, 0, 1}, 8), 2.4);
  EXPECT_DOUBLE_EQ(padding_factor({0, 0}, 8), 1.0);
}

TEST(Imbalance, TableHasItsPassesInTheRightRows) {
  std::vector<BalancePoint> points;
  for (const int tokens : {1, 7, 8, 100, 128, 511, 512, 5000}) {
    BalancePoint point;
    point.tokens = tokens;
    point.imbalance = tokens;
    points.push_back(point);
  }
  const std::vector<BalanceRow> table = balance_table(points);
  ASSERT_EQ(table.size(), 7u);
  std::vector<int> counts;
  for (const BalanceRow& row : table) counts.push_back(row.points);
  EXPECT_EQ(counts, (std::vector<int>{2, 1, 1, 2, 1, 1, 4}));
  EXPECT_EQ(table.back().low, 128);
  EXPECT_DOUBLE_EQ(table.back().median, (511 + 512) / 2.0);
  EXPECT_TRUE(balance_table({}).empty());
}

// The repository's own traces: whole, labelled, and as unbalanced as the studies of them say.
TEST(ShippedTraces, AreWholeAndLabelled) {
  for (const char* name : {"dsv2lite_esft", "gptoss20b_decode"}) {
    const ReadTrace read =
        read_trace(std::string(RAMP_SOURCE_DIR) + "/data/traces/" + name + ".rtrace");
    EXPECT_TRUE(read.health.whole()) << name;
    const Model& model = find_model(read.trace.info.model);
    EXPECT_EQ(read.trace.info.experts, model.shape.experts);
    EXPECT_EQ(read.trace.info.top_k, model.shape.top_k);
    EXPECT_EQ(read.trace.layers(), model.moe_layers);
    EXPECT_EQ(read.trace.info.kind, TraceKind::kRecorded);
    EXPECT_NE(read.trace.info.source.find("@"), std::string::npos);
    EXPECT_NE(read.trace.info.licence, "");
    EXPECT_NO_THROW(check_trace(read.trace));
  }
}

TEST(ShippedTraces, DeepSeekV2LiteIsAsUnbalancedAsThePapersModelOfTheSameE) {
  const ReadTrace read =
      read_trace(std::string(RAMP_SOURCE_DIR) + "/data/traces/dsv2lite_esft.rtrace");
  SampleOptions options;
  options.concurrency = {128, 160, 192};
  options.prefill_share = 0;
  options.mixed_share = 0;
  options.train_passes = 400;
  options.test_passes = 0;
  options.uniform_draws = 0;
  // Table 6, OLMoE, E = 64: 1.22, 1.45, 1.89 at EP4, EP8, EP16.
  for (const auto& [name, want] : {std::pair{"ep4", 1.22}, {"ep8", 1.45}, {"ep16", 1.89}}) {
    std::vector<double> imbalance;
    for (const SampledPass& pass :
         sample_traffic(read.trace, find_model("dsv2-lite").shape, parse_layout(name), options)
             .passes)
      if (pass.tokens >= 96) imbalance.push_back(imbalance_of(pass.counts));
    EXPECT_GT(imbalance.size(), 100u);
    EXPECT_NEAR(median(imbalance), want, 0.12) << name;
  }
}

// Table 3's traffic: fitted on closed loops, scored on open ones, without a request in common.
TEST(Sample, ScoresOnOpenLoops) {
  const RoutingTrace trace = request_trace(std::vector<int>(60, 30));
  ArrivalTrace arrivals;
  arrivals.name = "afternoon";
  for (int i = 0; i < 200; ++i) arrivals.requests.push_back({i * 0.05, 40, 10});
  SampleOptions options = few();
  options.test_rates = {50, 200};
  options.test_arrivals = &arrivals;
  const SampledTraffic traffic = sample_traffic(trace, kShape, parse_layout("ep4"), options);
  std::map<std::string, int> loops;
  for (const SampledPass& pass : traffic.passes) {
    if (pass.role == Traffic::kTest) ++loops[pass.loop];
    if (pass.role == Traffic::kTrain) {
      EXPECT_TRUE(pass.loop.starts_with("closed")) << pass.loop;
    }
  }
  EXPECT_EQ(loops.size(), 3u);
  EXPECT_GT(loops["open 50/s"], 0);
  EXPECT_GT(loops["open 200/s"], 0);
  EXPECT_GT(loops["open afternoon at 1x"], 0);
  EXPECT_NE(traffic.split.find("open loops"), std::string::npos);
  EXPECT_THROW(sample_traffic(pass_trace(4, 3, 10), kShape, parse_layout("ep4"), options), Error);
}

TEST(Sample, ScoresOnAnotherTraceAndNamesBoth) {
  const RoutingTrace trace = request_trace(std::vector<int>(20, 30));
  RoutingTrace other = pass_trace(4, 3, 10);
  other.info.kind = TraceKind::kGenerated;
  other.info.calibration = "olmoe (g 1)";
  SampleOptions options = few();
  options.test_trace = &other;
  const SampledTraffic traffic = sample_traffic(trace, kShape, parse_layout("ep4"), options);
  EXPECT_EQ(traffic.routing, "recorded: a test; scored on generated: olmoe (g 1), seed 0");
  std::map<Traffic, int> roles;
  for (const SampledPass& pass : traffic.passes) {
    ++roles[pass.role];
    EXPECT_EQ(pass.loop == "recorded", pass.role == Traffic::kTest);
  }
  EXPECT_EQ(roles[Traffic::kTrain], options.train_passes);
  EXPECT_EQ(roles[Traffic::kTest], options.test_passes);
  EXPECT_EQ(roles[Traffic::kUniform], 18);
  other.info.layers = {7, 9};
  EXPECT_THROW(sample_traffic(trace, kShape, parse_layout("ep4"), options), Error);
}

TEST(Placement, ReBalancedFollowsThePassesBefore) {
  const ReadTrace read =
      read_trace(std::string(RAMP_SOURCE_DIR) + "/data/traces/dsv2lite_esft.rtrace");
  SampleOptions options = few();
  options.uniform_draws = 0;
  options.concurrency = {128};
  options.prefill_share = options.mixed_share = 0;
  const auto median_imbalance = [&](int every, int replicas) {
    options.rebalance_every = every;
    options.replicas.redundant = replicas;
    std::vector<double> imbalance;
    for (const SampledPass& pass :
         sample_traffic(read.trace, find_model("dsv2-lite").shape, parse_layout("ep8"), options)
             .passes) {
      long long pairs = 0;
      for (const ExpertLoad& load : pass.counts) pairs += pairs_of(load);
      EXPECT_EQ(pairs, 6ll * pass.tokens);
      imbalance.push_back(imbalance_of(pass.counts));
    }
    return median(imbalance);
  };
  const double contiguous = median_imbalance(0, 0), every = median_imbalance(64, 0);
  EXPECT_LT(every, contiguous - 0.1);
  EXPECT_LT(median_imbalance(64, 16), every + 0.02);
}

// A recorded session's first block has nothing to be balanced on.
TEST(Placement, ReBalancedRecordedPassesNeedABlockBefore) {
  SampleOptions options = few();
  options.rebalance_every = 4;
  const SampledTraffic traffic =
      sample_traffic(pass_trace(8, 3, 10), kShape, parse_layout("ep4"), options);
  EXPECT_GT(traffic.passes.size(), 18u);
  options.rebalance_every = 10;
  const std::string error =
      error_of([&] { sample_traffic(pass_trace(8, 3, 10), kShape, parse_layout("ep4"), options); });
  EXPECT_NE(error.find("longest session, 10"), std::string::npos) << error;
}

TEST(Placement, BalancedFromTheTraceLowersTheImbalanceOfThatTrace) {
  const ReadTrace read =
      read_trace(std::string(RAMP_SOURCE_DIR) + "/data/traces/dsv2lite_esft.rtrace");
  SampleOptions options = few();
  options.uniform_draws = 0;
  options.concurrency = {64, 128};
  auto median_imbalance = [&](const Layout& layout) {
    std::vector<double> imbalance;
    for (const SampledPass& pass :
         sample_traffic(read.trace, find_model("dsv2-lite").shape, layout, options).passes)
      imbalance.push_back(imbalance_of(pass.counts));
    return median(imbalance);
  };
  const Layout contiguous = parse_layout("ep8");
  const Layout balanced = with_balanced_placement(contiguous, expected_loads(read.trace));
  EXPECT_EQ(balanced.name(), "ep8+balanced");
  EXPECT_EQ(balanced.placement.size(), 26u);
  EXPECT_LT(median_imbalance(balanced), median_imbalance(contiguous) - 0.05);
}

}  // namespace
}  // namespace ramp
