// SPDX-License-Identifier: Apache-2.0
#include "runtime/layer_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>

#include "kernels/ffn/space.hpp"
#include "problem/random.hpp"
#include "runtime/check.hpp"

namespace ramp {
namespace {

constexpr double kSeconds = 60;
constexpr double kMemoryShare = 0.6;
constexpr double kLeastBytes = 1.1e9;  // of all layers' weights
constexpr int kMostLayers = 64;
constexpr int kCheckTokens = 64;
constexpr double kReferenceProducts = 1.5e10;  // of one check: some seconds on 16 cores

std::size_t size_of(int n) { return static_cast<std::size_t>(n); }

// As the peers' harness: fewer layers where one takes long.
int layers_wanted(int tokens) { return tokens > 1024 ? 8 : tokens > 256 ? 16 : 32; }

}  // namespace

// What one layer of the graph has for itself.
struct LayerBench::Place {
  gpu::Buffer routed, ids, gates, active, workspace;
  int active_experts = 0;
};

// The layers of a graph for one menu.
struct LayerBench::Stack {
  BenchChoice choice;
  std::vector<Layer> layers;
};

LayerBench::~LayerBench() = default;

LayerBench::LayerBench(const gpu::Context& context, const gpu::Clocks& clocks,
                       gpu::CubinCache& cache, LayerBenchOptions options)
    : context_(context),
      clocks_(clocks),
      cache_(cache),
      options_(std::move(options)),
      bench_(load_bench(cache)),
      stream_program_(cache.get(stream_request())) {
  if (!options_.model.refusal.empty())
    throw Error("--model", options_.model.name, options_.model.refusal,
                "take a model whose experts the layer runs (`ramp catalog`)");
  if (options_.rank != kHeaviestRank &&
      (options_.rank < 0 || options_.rank >= options_.layout.gpus))
    throw Error("--rank", fmt::format("{}", options_.rank),
                fmt::format("heaviest, or 0 to {}", options_.layout.gpus - 1), "");
  // The first GPUs are the ones with an expert more.
  shape_ = local_shape(options_.model.shape, options_.layout, 0);
  require_ffn_shape(shape_);
  const auto bytes = static_cast<double>(weight_bytes(shape_));
  const double room = kMemoryShare * static_cast<double>(gpu::memory_info().free_bytes);
  int layers = std::max(options_.most_layers, static_cast<int>(std::ceil(kLeastBytes / bytes)));
  layers = std::min({layers, kMostLayers, static_cast<int>(room / bytes)});
  if (layers < std::min(2, options_.most_layers))
    throw Error("memory of the GPU", fmt::format("{:.0f} GB free", room / kMemoryShare / 1e9),
                fmt::format("room for two layers of {:.1f} GB", bytes / 1e9),
                "take a layout with more GPUs");
  if (options_.most_layers == 1) layers = 1;
  for (int i = 0; i < layers; ++i)
    weights_.push_back(
        random_weights(bench_, shape_, 100 + static_cast<std::uint64_t>(i), stream_));
  wait_for(stream_, kSeconds, "filling the weights");
}

int LayerBench::layers_of(int tokens) const {
  const double bytes = static_cast<double>(weight_bytes(shape_));
  const int cold = static_cast<int>(std::ceil(kLeastBytes / bytes));
  return std::min(static_cast<int>(weights_.size()), std::max(layers_wanted(tokens), cold));
}

void LayerBench::set_load(const LoadSource& source, int tokens) {
  tokens_ = tokens;
  // One layer's weights are a bench of prepare, which reads none: as many launches as ever.
  const int layers = weights_.size() == 1 ? layers_wanted(tokens) : layers_of(tokens);
  routed_ = source.draw(tokens, layers, options_.rank);
  places_.clear();
  expected_.reset();
  const std::size_t elements = size_of(tokens) * size_of(shape_.hidden);
  hidden_ = gpu::Buffer(elements * 2);
  output_ = gpu::Buffer(elements * 2);
  bench_.random_bf16(hidden_.ptr(), elements, 5, stream_);
  const Workspace layout =
      workspace_layout(shape_, tokens, {.middle = true, .slots = true, .row_a_pair = true});
  workspace_ = gpu::Buffer(layout.bytes);
  std::vector<gpu::CUdeviceptr> claims;
  for (std::size_t i = 0; i < routed_.size(); ++i) {
    const RoutedLayer& r = routed_[i];
    std::vector<int> active;
    for (std::size_t e = 0; e < r.counts.size(); ++e)
      if (r.counts[e] > 0) active.push_back(static_cast<int>(e));
    Place p;
    p.active_experts = static_cast<int>(active.size());
    active.push_back(0);  // never empty
    p.active = gpu::Buffer::of(active);
    p.routed = gpu::Buffer::of(r.ids);
    p.ids = gpu::Buffer(p.routed.bytes());
    p.gates =
        gpu::Buffer::of(random_gates(tokens, shape_.top_k, 900 + static_cast<std::uint64_t>(i)));
    p.workspace = gpu::Buffer(layout.bytes);
    claims.push_back(p.workspace.ptr(layout.state) + offsetof(LayerState, claim));
    places_.push_back(std::move(p));
  }
  claims_ = gpu::Buffer::of(claims);
}

LayerBench::Stack LayerBench::stack(const BenchChoice& choice) {
  Stack s{choice, {}};
  if (s.choice.theta.empty()) s.choice.theta.resize(choice.menu.size());
  const auto kernels = load_kernels(context_, choice.menu, cache_, true);
  for (std::size_t i = 0; i < routed_.size(); ++i) {
    LayerOptions options;
    options.shape = routed_[i].shape;
    options.experts = options_.model.shape.experts;
    options.expert_map = routed_[i].expert_map;
    options.menu = choice.menu;
    options.theta = s.choice.theta;
    options.ordered = choice.ordered;
    options.row_a_pair = choice.row_a_pair;
    s.layers.emplace_back(kernels, options, weights_[i % weights_.size()].view());
  }
  return s;
}

LayerCall LayerBench::call_of(std::size_t layer, const BenchChoice& choice,
                              bool own_workspace) const {
  const Place& p = places_[layer];
  LayerCall call;
  call.tokens = tokens_;
  call.hidden = hidden_.ptr();
  call.ids = p.ids.ptr();
  call.gates = p.gates.ptr();
  call.output = output_.ptr();
  call.workspace = (own_workspace ? p.workspace : workspace_).ptr();
  call.workspace_bytes = workspace_.bytes();
  call.stream = stream_;
  call.forced = choice.forced;
  if (choice.prefill >= 0)
    call.prefill = std::min(choice.prefill, deepest_prefill(choice.menu, shape_.hidden));
  return call;
}

void LayerBench::write_ids(std::size_t layer) {
  const Place& p = places_[layer];
  bench_.write_ids(options_.router, p.ids.ptr(), p.routed.ptr(),
                   static_cast<int>(p.routed.bytes() / sizeof(int)), stream_);
}

TimedGraph LayerBench::layer_graph(const std::string& name, const Stack& s) {
  s.layers[0].init_workspace(workspace_.ptr(), stream_);
  return {name,
          gpu::Graph::capture(stream_,
                              [&] {
                                for (std::size_t i = 0; i < places_.size(); ++i) {
                                  write_ids(i);
                                  s.layers[i].forward(call_of(i, s.choice, false));
                                }
                              }),
          {}};
}

// Leaves every layer's tile list in the layer's own workspace.
void LayerBench::prepare_all(const Stack& s) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    LayerCall call = call_of(i, s.choice, true);
    call.ffn = false;
    s.layers[i].init_workspace(call.workspace, stream_);
    write_ids(i);
    s.layers[i].forward(call);
  }
  wait_for(stream_, kSeconds, "preparing the tile lists");
}

TimedGraph LayerBench::ready_graph(const std::string& name, const Stack& s, bool with_ids) {
  const int layers = static_cast<int>(places_.size());
  return {name,
          gpu::Graph::capture(stream_,
                              [&] {
                                for (std::size_t i = 0; i < places_.size(); ++i) {
                                  if (with_ids) write_ids(i);
                                  LayerCall call = call_of(i, s.choice, true);
                                  call.prepare = false;
                                  s.layers[i].forward(call);
                                }
                              }),
          [this, layers](gpu::CUstream stream) { bench_.rearm(claims_.ptr(), layers, stream); }};
}

TimedGraph LayerBench::stream_graph() {
  return {
      "stream",
      gpu::Graph::capture(stream_,
                          [&] {
                            for (std::size_t i = 0; i < places_.size(); ++i) {
                              const TrialWeights& w = weights_[i % weights_.size()];
                              stream_program_.launch(
                                  stream_args(shape_, w.w13.ptr(), w.w2.ptr(),
                                              places_[i].active.ptr(), places_[i].active_experts),
                                  context_.info().sms, stream_);
                            }
                          }),
      {}};
}

std::string LayerBench::most_run(const Stack& s) {
  std::map<int, int> runs;
  for (std::size_t i = 0; i < places_.size(); ++i)
    ++runs[s.layers[i].counters(places_[i].workspace.ptr(), stream_).last_entry];
  const auto most = std::max_element(
      runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return ffn_label(s.choice.menu[size_of(most->first)]);
}

// What some tokens of the first layer should come to: all of them, or as many as the reference can
// do in seconds.
struct LayerBench::Expected {
  std::vector<int> tokens;
  std::vector<double> want;
  int most_pairs = 0;
};

const LayerBench::Expected& LayerBench::expected() {
  if (expected_) return *expected_;
  if (!first_) first_ = download(weights_[0]);
  const RoutedLayer& r = routed_[0];
  const double of_pair = 3.0 * shape_.hidden * shape_.intermediate;
  const double pairs_a_token = std::max(0.01, static_cast<double>(r.pairs()) / tokens_);
  const int most = std::max(4, static_cast<int>(kReferenceProducts / of_pair / pairs_a_token));
  auto e = std::make_unique<Expected>();
  e->tokens.resize(size_of(tokens_));
  std::iota(e->tokens.begin(), e->tokens.end(), 0);
  if (const int some = std::min(kCheckTokens, most); tokens_ > some) {
    Random random(static_cast<std::uint64_t>(tokens_), 701);
    random.shuffle(e->tokens);
    e->tokens.resize(size_of(some));
  }
  const auto d = size_of(shape_.hidden), k = size_of(shape_.top_k);
  HostBatch batch;
  batch.tokens = static_cast<int>(e->tokens.size());
  batch.expert_map = r.expert_map;
  batch.hidden = rows_of(hidden_.values<std::uint16_t>(), e->tokens, d);
  batch.ids = rows_of(r.ids, e->tokens, k);
  batch.gates = rows_of(places_[0].gates.values<float>(), e->tokens, k);
  for (std::size_t t = 0; t < e->tokens.size(); ++t) {
    int pairs = 0;
    for (std::size_t j = 0; j < k; ++j) {
      const int id = batch.ids[t * k + j];
      pairs += id >= 0 && r.expert_map[size_of(id)] >= 0;
    }
    e->most_pairs = std::max(e->most_pairs, pairs);
  }
  e->want = reference_on_threads(r.shape, *first_, batch);
  expected_ = std::move(e);
  return *expected_;
}

// Nothing wrong is timed.
double LayerBench::check(const Stack& s) {
  output_.fill(0xff);
  s.layers[0].init_workspace(workspace_.ptr(), stream_);
  write_ids(0);
  s.layers[0].forward(call_of(0, s.choice, false));
  wait_for(stream_, kSeconds, "the check before timing");
  const Expected& e = expected();
  const OutputError error = output_error(
      e.want, rows_of(output_.values<std::uint16_t>(), e.tokens, size_of(shape_.hidden)));
  double allowed = 0;
  for (const FfnConfig& c : s.choice.menu)
    allowed = std::max(allowed, fast_tolerance(output_adds(c, shape_.intermediate, e.most_pairs),
                                               shape_.intermediate));
  if (!(error.all <= allowed))
    throw WrongNumbers(
        "numbers of " + ffn_label(s.choice.menu[size_of(std::max(0, s.choice.forced))]),
        fmt::format("relative error {:.4f}", error.all), fmt::format("at most {:.4f}", allowed),
        "find out with `ramp check`");
  return error.all;
}

void LayerBench::describe(LayerTimes& times) const {
  times.layers = static_cast<int>(places_.size());
  for (const RoutedLayer& r : routed_) {
    times.active_mb += 1e-6 * r.active() *
                       static_cast<double>(expert_bytes(shape_.hidden, shape_.intermediate)) /
                       times.layers;
    times.floor_us += floor_us(r.shape, r.active(), r.pairs()) / times.layers;
  }
}

GraphTimes LayerBench::time(const std::vector<TimedGraph>& graphs) {
  GraphTimes times = time_graphs(bench_, clocks_, graphs, options_.replays, stream_);
  for (double& us : times.us) us /= static_cast<double>(places_.size());
  return times;
}

LayerTimes LayerBench::layer(const BenchChoice& choice) {
  const Stack s = stack(choice);
  LayerTimes times;
  describe(times);
  times.rel_err = check(s);
  prepare_all(s);
  times.entry = most_run(s);
  std::vector<TimedGraph> graphs;
  graphs.push_back(layer_graph("layer", s));
  graphs.push_back(ready_graph("ready", s, true));
  graphs.push_back(ready_graph("ffn", s, false));
  graphs.push_back(stream_graph());
  times.timing = time(graphs);
  times.us = times.timing.us[0];
  times.ready_us = times.timing.us[1];
  times.ffn_us = times.timing.us[2];
  times.stream_us = times.timing.us[3];
  return times;
}

std::size_t LayerBench::fastest(const BenchChoice& choice,
                                const std::function<void(const WrongNumbers&)>& skipped) {
  const std::vector<FfnConfig>& configs = choice.menu;
  std::vector<Stack> stacks;
  std::vector<TimedGraph> graphs;
  std::vector<std::size_t> right;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    stacks.push_back(stack({{configs[i]}, {}, 0, choice.ordered, choice.prefill}));
    try {
      check(stacks.back());
    } catch (const WrongNumbers& wrong) {
      if (right.empty() && i + 1 == configs.size()) throw;
      skipped(wrong);
      continue;
    }
    right.push_back(i);
    graphs.push_back(layer_graph(ffn_label(configs[i]), stacks.back()));
  }
  const GraphTimes times = time(graphs);
  return right[static_cast<std::size_t>(std::min_element(times.us.begin(), times.us.end()) -
                                        times.us.begin())];
}

std::vector<ForcedTimes> LayerBench::forced(const std::vector<FfnConfig>& menu) {
  std::vector<Stack> stacks;
  std::vector<TimedGraph> graphs;
  for (std::size_t i = 0; i < menu.size(); ++i)
    for (const bool alone : {false, true}) {
      stacks.push_back(stack(alone ? BenchChoice{{menu[i]}, {}, 0}
                                   : BenchChoice{menu, {}, static_cast<int>(i)}));
      check(stacks.back());
      graphs.push_back(layer_graph(ffn_label(menu[i]), stacks.back()));
    }
  const GraphTimes times = time(graphs);
  std::vector<ForcedTimes> rows;
  for (std::size_t i = 0; i < menu.size(); ++i)
    rows.push_back({ffn_label(menu[i]), times.us[2 * i], times.us[2 * i + 1]});
  return rows;
}

LayerTimes LayerBench::ffn(const FfnConfig& config) {
  const Stack s = stack({{config}, {}, 0});
  LayerTimes times;
  describe(times);
  times.entry = ffn_label(config);
  times.rel_err = check(s);
  prepare_all(s);
  std::vector<TimedGraph> graphs;
  graphs.push_back(ready_graph("ffn", s, false));
  graphs.push_back(stream_graph());
  times.timing = time(graphs);
  times.ffn_us = times.timing.us[0];
  times.stream_us = times.timing.us[1];
  return times;
}

double LayerBench::prepare(const BenchChoice& choice) {
  const Stack s = stack(choice);
  s.layers[0].init_workspace(workspace_.ptr(), stream_);
  std::vector<TimedGraph> graphs;
  for (const bool with_prepare : {false, true})
    graphs.push_back({with_prepare ? "ids and prepare" : "ids",
                      gpu::Graph::capture(stream_,
                                          [&] {
                                            for (std::size_t i = 0; i < places_.size(); ++i) {
                                              write_ids(i);
                                              LayerCall call = call_of(i, s.choice, false);
                                              call.ffn = false;
                                              if (with_prepare) s.layers[i].forward(call);
                                            }
                                          }),
                      {}});
  const GraphTimes times = time(graphs);
  return times.us[1] - times.us[0];
}

}  // namespace ramp
