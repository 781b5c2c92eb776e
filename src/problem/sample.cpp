// SPDX-License-Identifier: Apache-2.0
#include "problem/sample.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "problem/replay.hpp"
#include "problem/split.hpp"

namespace ramp {
namespace {

// A batch of many streams of few requests would be those requests' taste, not traffic: a pool of n
// requests replays at most 8 n at once.
constexpr int kStreamsOfARequest = 8;
constexpr int kPassesBetweenSamples = 16;  // of one replay, so that samples differ

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
      from_requests(split.test, options_.test_passes, Traffic::kTest);
    }
    uniform();
    return std::move(out_);
  }

 private:
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

  void keep(const ForwardPass& pass, int layer, Traffic role) {
    const LayerLoad load = count_load(trace_, pass.tokens, layer);
    if (load.tokens == 0) return;
    SampledPass sampled;
    sampled.tokens = load.tokens;
    sampled.prefill_tokens = pass.prefill_tokens;
    sampled.layer = trace_.info.layers[layer];
    sampled.domain = pass.domain < 0 ? "mixed" : trace_.domains[pass.domain];
    sampled.role = role;
    sampled.counts = split_load(load.experts, layout_, layer);
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
    std::map<std::pair<const std::vector<int>*, int>, Replay> replays;
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
        found = replays.try_emplace({pool, concurrency}, trace_, *pool, replay).first;
      Replay& loop = found->second;
      loop.skip(kPassesBetweenSamples);
      if (burst) {
        const double low = std::min(max_log, std::log2(std::max(32, 2 * concurrency)));
        const int target =
            static_cast<int>(std::lround(std::exp2(low + (max_log - low) * random.uniform())));
        keep(loop.next_with_burst(std::clamp(target, 1, options_.max_tokens)), next_layer(random),
             role);
      } else {
        keep(loop.next(), next_layer(random), role);
      }
      i += out_.passes.size() > before;
    }
  }

  void from_passes(const std::vector<int>& passes, int wanted, Traffic role) {
    if (wanted <= 0) return;
    const std::vector<std::int32_t> request_of = request_of_tokens(trace_);
    Random random(options_.seed, role == Traffic::kTrain ? 102 : 103);
    // By power of two of the size; inside, every (pass, layer) once at most.
    std::map<int, std::vector<std::pair<int, int>>> of_size;
    for (const int p : passes) {
      const std::int64_t tokens = trace_.pass_offsets[p + 1] - trace_.pass_offsets[p];
      if (tokens < 1 || tokens > options_.max_tokens) continue;
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
        keep(recorded_pass(trace_, p, request_of), layer, role);
        left -= out_.passes.size() > before;
      }
      if (!any) break;
    }
  }

  void uniform() {
    Random random(options_.seed, 104);
    for (const int tokens : kVllmBatchSizes)
      for (int draw = 0; draw < options_.uniform_draws; ++draw) {
        SampledPass pass;
        pass.tokens = tokens;
        pass.domain = "uniform";
        pass.role = Traffic::kUniform;
        pass.counts =
            split_load(draw_uniform_load(shape_.experts, shape_.top_k, tokens, random), layout_, 0);
        out_.passes.push_back(std::move(pass));
      }
  }

  const RoutingTrace& trace_;
  const MoeShape& shape_;
  const Layout& layout_;
  const SampleOptions& options_;
  std::vector<int> layers_, layer_deck_;
  SampledTraffic out_;
};

void check_options(const RoutingTrace& trace, const MoeShape& shape, const SampleOptions& options) {
  if (trace.info.experts != shape.experts || trace.info.top_k != shape.top_k)
    throw Error("trace", fmt::format("E = {}, k = {}", trace.info.experts, trace.info.top_k),
                fmt::format("E = {}, k = {} of the model", shape.experts, shape.top_k),
                "use a trace of this model, or the model of this trace");
  if (trace.passes() == 0 && trace.requests.empty())
    throw Error("trace", "tokens without requests or passes", "at least one of the two",
                "import it again with request_offsets or pass_offsets");
  if (trace.info.id_space == IdSpace::kPhysical)
    throw Error("trace", "physical ids (redundant experts)", "logical ids",
                "record before the server maps experts to copies");
  if (options.concurrency.empty() ||
      *std::min_element(options.concurrency.begin(), options.concurrency.end()) < 1)
    throw Error("concurrency", "none or below 1", "numbers from 1",
                "for example 1,4,16,64,128,256");
  if (options.max_tokens < 1 || options.max_tokens > (1 << 20))
    throw Error("max_tokens", fmt::format("{}", options.max_tokens), "1 .. 1048576",
                "for example 4096");
  for (const double share : {options.prefill_share, options.mixed_share})
    if (!(share >= 0 && share <= 1))
      throw Error("share", fmt::format("{}", share), "0 .. 1", "for example 0.25");
  for (const int layer : options.layers)
    if (layer < 0 || layer >= trace.layers())
      throw Error("layers", fmt::format("{}", layer), fmt::format("0 .. {}", trace.layers() - 1),
                  "ramp trace info lists them");
}

}  // namespace

const char* text_of(Traffic role) {
  return role == Traffic::kTrain ? "train" : role == Traffic::kTest ? "test" : "uniform";
}

SampledTraffic sample_traffic(const RoutingTrace& trace, const MoeShape& shape,
                              const Layout& layout, const SampleOptions& options) {
  check_options(trace, shape, options);
  check_layout(shape, layout);
  return Sampler(trace, shape, layout, options).sample();
}

}  // namespace ramp
