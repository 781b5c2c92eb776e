// SPDX-License-Identifier: Apache-2.0
#include "runtime/routed_load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "problem/random.hpp"
#include "problem/trace_file.hpp"
#include "problem/trace_generate.hpp"

namespace ramp {
namespace {

// Up to here every token belongs to a request of its own, as in decoding; above, a pass is a few
// prompts.
constexpr int kDecodeTokens = 512;
constexpr int kPrompts = 8;
constexpr int kPassesForPrompts = 24;  // of random lengths, together long enough

std::size_t size_of(int n) { return static_cast<std::size_t>(n); }

}  // namespace

int RoutedLayer::active() const {
  return static_cast<int>(std::count_if(counts.begin(), counts.end(), [](int n) { return n > 0; }));
}

long long RoutedLayer::pairs() const { return std::accumulate(counts.begin(), counts.end(), 0LL); }

LoadSource::LoadSource(const Model& model, const Layout& layout, const std::string& load,
                       const std::string& trace, std::uint64_t seed)
    : model_(model), layout_(layout), load_(load), seed_(seed) {
  check_layout(model.shape, layout);
  if (load == "generated") {
    find_calibration(model.name);
  } else if (load == "recorded") {
    if (trace.empty())
      throw Error("--load recorded", "no trace", "a .rtrace of this model", "add --trace FILE");
    trace_ = std::make_shared<const RoutingTrace>(read_trace(trace).trace);
    if (trace_->info.experts != model.shape.experts || trace_->info.top_k != model.shape.top_k)
      throw Error(
          "--trace", fmt::format("E = {}, k = {}", trace_->info.experts, trace_->info.top_k),
          fmt::format("E = {}, k = {} of {}", model.shape.experts, model.shape.top_k, model.name),
          "use a trace of this model");
  } else if (load != "uniform") {
    throw Error("--load", load, "uniform, generated or recorded", "");
  }
}

std::string LoadSource::label() const {
  if (trace_) return routing_label(trace_->info);
  if (load_ == "uniform") return fmt::format("uniform, seed {}", seed_);
  GenerateOptions options;
  options.model = model_;
  options.calibration = find_calibration(model_.name);
  options.seed = seed_;
  return routing_label(generated_info(options));
}

std::vector<std::vector<int>> LoadSource::generated_ids(int tokens, int layers) const {
  GenerateOptions options;
  options.model = model_;
  options.calibration = find_calibration(model_.name);
  options.seed = seed_;
  options.repeats = 1;
  options.layers = std::min(layers, model_.moe_layers);
  const bool decode = tokens <= kDecodeTokens;
  options.concurrency = {decode ? tokens : kPrompts};
  options.burst_share = decode ? 0 : 1;
  options.max_tokens = std::max(tokens, 64);
  options.passes = decode ? 1 : kPassesForPrompts;
  const int k = model_.shape.top_k;
  const std::size_t row = size_of(options.layers) * size_of(k);

  // A domain after the other; each gives as many layers as the model has.
  std::vector<std::vector<int>> out;
  std::vector<std::int16_t> kept;
  int domain = 0;
  const auto take = [&] {
    for (int l = 0; l < options.layers && static_cast<int>(out.size()) < layers; ++l) {
      std::vector<int> ids;
      for (int t = 0; t < tokens; ++t)
        for (int j = 0; j < k; ++j)
          ids.push_back(kept[size_of(t) * row + size_of(l) * size_of(k) + size_of(j)]);
      out.push_back(std::move(ids));
    }
  };
  while (static_cast<int>(out.size()) < layers) {
    generate_passes(options, [&](const GeneratedPass& pass) {
      if (pass.runs.empty()) return;
      if (pass.runs.front().domain != domain) domain = pass.runs.front().domain, kept.clear();
      if (kept.size() >= size_of(tokens) * row) return;  // this domain is done
      kept.insert(kept.end(), pass.ids.begin(), pass.ids.end());
      if (kept.size() >= size_of(tokens) * row) take();
    });
    kept.clear();
    ++options.seed;  // more layers than all domains together have: other requests
  }
  return out;
}

std::vector<std::vector<int>> LoadSource::recorded_ids(int tokens, int layers) const {
  const RoutingTrace& trace = *trace_;
  if (trace.tokens() < tokens)
    throw Error("--tokens", fmt::format("{}", tokens),
                fmt::format("up to the trace's {} tokens", trace.tokens()),
                "take fewer tokens or --load generated");
  Random random(seed_, 501);
  std::vector<std::vector<int>> out;
  for (int l = 0; l < layers; ++l) {
    std::vector<std::int64_t> chosen(size_of(tokens));
    if (tokens <= kDecodeTokens) {
      // The first of a shuffle, drawn without keeping all of it.
      std::vector<std::int64_t> taken;
      for (std::int64_t& t : chosen) {
        do t = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(trace.tokens())));
        while (std::find(taken.begin(), taken.end(), t) != taken.end());
        taken.push_back(t);
      }
    } else {
      const auto first = static_cast<std::int64_t>(
          random.below(static_cast<std::uint64_t>(trace.tokens() - tokens + 1)));
      std::iota(chosen.begin(), chosen.end(), first);
    }
    std::vector<int> ids;
    for (const std::int64_t t : chosen)
      for (const std::int16_t id : trace.row(t, l % trace.layers())) ids.push_back(id);
    out.push_back(std::move(ids));
  }
  return out;
}

std::vector<std::vector<int>> LoadSource::draw_ids(int tokens, int layers) const {
  if (load_ == "generated") return generated_ids(tokens, layers);
  if (load_ == "recorded") return recorded_ids(tokens, layers);
  Random random(seed_, 502);
  std::vector<int> experts(size_of(model_.shape.experts));
  std::iota(experts.begin(), experts.end(), 0);
  std::vector<std::vector<int>> out(size_of(layers));
  for (std::vector<int>& ids : out)
    for (int t = 0; t < tokens; ++t)
      for (std::size_t j = 0; j < size_of(model_.shape.top_k); ++j) {
        std::swap(experts[j], experts[j + random.below(experts.size() - j)]);
        ids.push_back(experts[j]);
      }
  return out;
}

std::vector<RoutedLayer> LoadSource::draw(int tokens, int layers, int rank) const {
  const int experts = model_.shape.experts;
  std::vector<RoutedLayer> out;
  for (std::vector<int>& ids : draw_ids(tokens, layers)) {
    RoutedLayer layer;
    layer.rank = rank;
    if (rank == kHeaviestRank) {
      const std::vector<int> gpu = gpu_of_experts(layout_, experts);
      std::vector<long long> pairs(size_of(layout_.gpus), 0);
      for (const int id : ids)
        if (id >= 0) ++pairs[size_of(gpu[size_of(id)])];
      layer.rank = static_cast<int>(std::max_element(pairs.begin(), pairs.end()) - pairs.begin());
    }
    layer.shape = local_shape(model_.shape, layout_, layer.rank);
    layer.expert_map = expert_map(layout_, experts, layer.rank);
    layer.counts.assign(size_of(layer.shape.experts), 0);
    for (const int id : ids)
      if (id >= 0 && layer.expert_map[size_of(id)] >= 0)
        ++layer.counts[size_of(layer.expert_map[size_of(id)])];
    layer.ids = std::move(ids);
    out.push_back(std::move(layer));
  }
  return out;
}

}  // namespace ramp
