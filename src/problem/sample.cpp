// SPDX-License-Identifier: Apache-2.0
#include "problem/sample.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "problem/pass_counts.hpp"
#include "problem/placed_replay.hpp"
#include "problem/replay.hpp"
#include "problem/split.hpp"

namespace ramp {
namespace {

// A batch of many streams of few requests would be those requests' taste, not traffic: a pool of n
// requests replays at most 8 n at once.
constexpr int kStreamsOfARequest = 8;
constexpr int kPassesBetweenSamples = 16;  // of one replay, so that samples differ
constexpr int kWarmUpPasses = 500;         // of an open loop, until as many leave as come

class Sampler {
 public:
  Sampler(const RoutingTrace& trace, const MoeShape& shape, const Layout& layout,
          const SampleOptions& options)
      : trace_(trace), shape_(shape), layout_(layout), options_(options) {
    layers_ = options.layers;
    if (layers_.empty()) {
      layers_.resize(trace.layers());
      std::iota(layers_.begin(), layers_.end(), 0);
    }
    out_.gpus = layout.gpus;
    out_.routing = routing_label(trace.info);
  }

  // Every pass in one role, without uniform draws.
  SampledTraffic sample_all(Traffic role) {
    const int wanted = role == Traffic::kTrain ? options_.train_passes : options_.test_passes;
    if (trace_.passes() > 0) {
      from_passes(split_passes(trace_, 0, options_.seed).train, wanted, role);
    } else {
      const std::vector<int> requests = split_requests(trace_, 0, options_.seed).train;
      if (role == Traffic::kTest && is_open_loop())
        from_open_loops(requests, wanted, role);
      else
        from_requests(requests, wanted, role);
    }
    return std::move(out_);
  }

  SampledTraffic sample() {
    if (trace_.passes() > 0) {
      const PassSplit split =
          split_passes(trace_, options_.test_share, options_.seed, options_.held_out_domain);
      out_.split = split.how;
      from_passes(split.train, options_.train_passes, Traffic::kTrain);
      from_passes(split.test, options_.test_passes, Traffic::kTest);
    } else {
      const RequestSplit split =
          split_requests(trace_, options_.test_share, options_.seed, options_.held_out_domain);
      out_.split = options_.held_out_domain.empty()
                       ? fmt::format("{} of {} requests held out", split.test.size(),
                                     split.test.size() + split.train.size())
                       : fmt::format("held out: domain {}", options_.held_out_domain);
      from_requests(split.train, options_.train_passes, Traffic::kTrain);
      if (is_open_loop()) {
        out_.split += ", in open loops";
        from_open_loops(split.test, options_.test_passes, Traffic::kTest);
      } else {
        from_requests(split.test, options_.test_passes, Traffic::kTest);
      }
    }
    uniform();
    return std::move(out_);
  }

  void uniform() {
    Random random(options_.seed, 104);
    for (const int tokens : kVllmBatchSizes)
      for (int draw = 0; draw < options_.uniform_draws; ++draw) {
        SampledPass pass;
        pass.tokens = tokens;
        pass.domain = pass.loop = "uniform";
        pass.role = Traffic::kUniform;
        pass.counts =
            split_load(draw_uniform_load(shape_.experts, shape_.top_k, tokens, random), layout_, 0);
        out_.passes.push_back(std::move(pass));
      }
  }

 private:
  bool is_open_loop() const { return !options_.test_rates.empty() || options_.test_arrivals; }

  PlacedReplay placed(const std::vector<int>& requests, const ReplayOptions& replay) const {
    return {trace_, requests, replay, layout_, options_.rebalance_every, options_.replicas};
  }

  // Each layer as often as every other one, in an order that has nothing to do with sizes.
  int next_layer(Random& random) {
    if (layer_deck_.empty()) {
      layer_deck_ = layers_;
      random.shuffle(layer_deck_);
    }
    const int layer = layer_deck_.back();
    layer_deck_.pop_back();
    return layer;
  }

  void keep(const ForwardPass& pass, int layer, Traffic role, const std::string& loop,
            const Layout& layout) {
    const LayerLoad load = count_load(trace_, pass.tokens, layer);
    if (load.tokens == 0) return;
    SampledPass sampled;
    sampled.tokens = load.tokens;
    sampled.prefill_tokens = pass.prefill_tokens;
    sampled.layer = trace_.info.layers[layer];
    sampled.domain = pass.domain < 0 ? "mixed" : trace_.domains[pass.domain];
    sampled.loop = loop;
    sampled.role = role;
    sampled.counts = split_load(load.experts, layout, layer);
    out_.passes.push_back(std::move(sampled));
  }

  void from_requests(const std::vector<int>& requests, int passes, Traffic role) {
    if (passes <= 0 || requests.empty()) return;
    Random random(options_.seed, role == Traffic::kTrain ? 100 : 101);
    std::map<int, std::vector<int>> of_domain;
    for (const int r : requests) of_domain[trace_.requests[r].domain].push_back(r);
    std::vector<const std::vector<int>*> pools;
    for (const auto& [domain, members] : of_domain) pools.push_back(&members);
    // One replay a pool and concurrency, kept running over the samples.
    std::map<std::pair<const std::vector<int>*, int>, PlacedReplay> replays;
    const double max_log = std::log2(options_.max_tokens);
    // Bursts may ask for more than a pool holds; the tries bound what that costs.
    for (int i = 0, tries = 0; i < passes && tries < 4 * passes; ++tries) {
      const std::size_t before = out_.passes.size();
      const bool mixed = pools.size() == 1 || random.uniform() < options_.mixed_share;
      const std::vector<int>* pool = mixed ? &requests : pools[random.below(pools.size())];
      const bool burst = random.uniform() < options_.prefill_share;
      int concurrency = options_.concurrency[random.below(options_.concurrency.size())];
      if (burst)
        concurrency =
            std::min<int>(concurrency, std::max<int>(1, static_cast<int>(pool->size()) / 4));
      concurrency = std::min<int>(
          {concurrency, options_.max_tokens, kStreamsOfARequest * static_cast<int>(pool->size())});
      ReplayOptions replay;
      replay.concurrency = concurrency;
      replay.token_budget = options_.max_tokens;
      replay.seed = options_.seed * 7919 + replays.size() * 31 + (role == Traffic::kTest ? 1 : 0);
      auto found = replays.find({pool, concurrency});
      if (found == replays.end())
        found = replays.emplace(std::pair(pool, concurrency), placed(*pool, replay)).first;
      PlacedReplay& loop = found->second;
      const std::string name = fmt::format("closed {}", concurrency);
      loop.skip(kPassesBetweenSamples);
      if (burst) {
        const double low = std::min(max_log, std::log2(std::max(32, 2 * concurrency)));
        const int target =
            static_cast<int>(std::lround(std::exp2(low + (max_log - low) * random.uniform())));
        const ForwardPass pass = loop.next_with_burst(std::clamp(target, 1, options_.max_tokens));
        const int layer = next_layer(random);
        keep(pass, layer, role, name + " + prompts", loop.layout_of(layer));
      } else {
        const ForwardPass pass = loop.next();
        const int layer = next_layer(random);
        keep(pass, layer, role, name, loop.layout_of(layer));
      }
      i += out_.passes.size() > before;
    }
  }

  void from_open_loops(const std::vector<int>& requests, int passes, Traffic role) {
    if (passes <= 0 || requests.empty()) return;
    Random random(options_.seed, 105);
    std::vector<std::pair<std::string, PlacedReplay>> loops;
    ReplayOptions replay;
    replay.token_budget = options_.max_tokens;
    replay.arrivals = nullptr;
    replay.speed = options_.speed;
    replay.pass_ms = options_.pass_ms;
    replay.token_us = options_.token_us;
    replay.max_active = options_.max_active;
    replay.seed = options_.seed * 7919 + 3;
    const auto add = [&](const std::string& name) {
      loops.emplace_back(name, placed(requests, replay));
      loops.back().second.skip(kWarmUpPasses);
    };
    for (const double rate : options_.test_rates) {
      replay.rate = rate;
      add(fmt::format("open {}/s", rate));
    }
    if (options_.test_arrivals) {
      replay.arrivals = options_.test_arrivals;
      add(fmt::format("open {} at {}x", options_.test_arrivals->name, options_.speed));
    }
    for (int i = 0, tries = 0; i < passes && tries < 4 * passes; ++tries) {
      auto& [name, loop] = loops[static_cast<std::size_t>(tries) % loops.size()];
      loop.skip(kPassesBetweenSamples - 1);
      const std::size_t before = out_.passes.size();
      const ForwardPass pass = loop.next();
      const int layer = next_layer(random);
      keep(pass, layer, role, name, loop.layout_of(layer));
      i += out_.passes.size() > before;
    }
  }

  void from_passes(const std::vector<int>& passes, int wanted, Traffic role) {
    if (wanted <= 0) return;
    const std::vector<std::int32_t> request_of = request_of_tokens(trace_);
    Random random(options_.seed, role == Traffic::kTrain ? 102 : 103);
    // Re-balanced: the first block of a session has nothing to go by.
    const int every = options_.rebalance_every;
    std::vector<int> place(trace_.passes(), 0);  // of a pass in its session
    if (every > 0) {
      const std::vector<int> session = sessions_of_passes(trace_);
      for (int p = 1; p < trace_.passes(); ++p)
        place[p] = session[p] == session[p - 1] ? place[p - 1] + 1 : 0;
      if (*std::max_element(place.begin(), place.end()) < every)
        throw Error("--placement", fmt::format("every-{}", every),
                    fmt::format("below the longest session, {} recorded passes",
                                *std::max_element(place.begin(), place.end()) + 1),
                    "re-balance more often, or record longer sessions (trace generate --passes)");
    }
    // By power of two of the size; inside, every (pass, layer) once at most.
    std::map<int, std::vector<std::pair<int, int>>> of_size;
    for (const int p : passes) {
      const std::int64_t tokens = trace_.pass_offsets[p + 1] - trace_.pass_offsets[p];
      if (tokens < 1 || tokens > options_.max_tokens || place[p] < every) continue;
      for (const int layer : layers_)
        of_size[std::bit_width(static_cast<std::uint64_t>(tokens))].push_back({p, layer});
    }
    for (auto& [size, points] : of_size) random.shuffle(points);
    // Sizes in turn; the rare ones run out first.
    for (int left = wanted; left > 0;) {
      bool any = false;
      for (auto& [size, points] : of_size) {
        if (points.empty() || left == 0) continue;
        any = true;
        const auto [p, layer] = points.back();
        points.pop_back();
        const std::size_t before = out_.passes.size();
        keep(recorded_pass(trace_, p, request_of), layer, role, "recorded",
             every == 0 ? layout_ : layout_before(p - place[p] % every, layer));
        left -= out_.passes.size() > before;
      }
      if (!any) break;
    }
  }

  // From the recorded passes of the block that ends at pass `end`.
  Layout layout_before(int end, int layer) const {
    std::vector<std::vector<std::int64_t>> block;
    for (int p = end - options_.rebalance_every; p < end; ++p) {
      block.emplace_back();
      for (std::int64_t t = trace_.pass_offsets[p]; t < trace_.pass_offsets[p + 1]; ++t)
        block.back().push_back(t);
    }
    return placed_on(layout_, trace_, block, layer, options_.replicas);
  }

  const RoutingTrace& trace_;
  const MoeShape& shape_;
  const Layout& layout_;
  const SampleOptions& options_;
  std::vector<int> layers_, layer_deck_;
  SampledTraffic out_;
};

}  // namespace

const char* text_of(Traffic role) {
  return role == Traffic::kTrain ? "train" : role == Traffic::kTest ? "test" : "uniform";
}

SampledTraffic sample_traffic(const RoutingTrace& trace, const MoeShape& shape,
                              const Layout& layout, const SampleOptions& options) {
  check_sample(trace, shape, layout, options);
  if (!options.test_trace) return Sampler(trace, shape, layout, options).sample();
  Sampler train(trace, shape, layout, options);
  train.uniform();
  SampledTraffic out = train.sample_all(Traffic::kTrain);
  SampledTraffic test =
      Sampler(*options.test_trace, shape, layout, options).sample_all(Traffic::kTest);
  out.passes.insert(out.passes.end(), std::make_move_iterator(test.passes.begin()),
                    std::make_move_iterator(test.passes.end()));
  // The two may be of different kinds: then both names stand there.
  if (test.routing != out.routing) out.routing += "; scored on " + test.routing;
  out.split = "fitted on one trace, scored on another";
  return out;
}

}  // namespace ramp
