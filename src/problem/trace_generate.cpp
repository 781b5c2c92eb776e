// SPDX-License-Identifier: Apache-2.0
#include "problem/trace_generate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "base/error.hpp"
#include "problem/generated_router.hpp"
#include "problem/generated_session.hpp"
#include "problem/model_config.hpp"
#include "problem/random.hpp"

namespace ramp {
namespace {

std::vector<SessionLoop> loops_of(const GenerateOptions& options) {
  std::vector<SessionLoop> loops;
  for (const int n : options.concurrency) loops.push_back({.concurrency = n});
  OpenLoopOptions open{
      .speed = options.speed, .pass_ms = options.pass_ms, .token_us = options.token_us};
  for (const double rate : options.rates) {
    open.rate = rate;
    loops.push_back({.open = open, .max_active = options.max_active});
  }
  if (options.arrivals) {
    open.arrivals = options.arrivals;
    loops.push_back({.open = open, .max_active = options.max_active});
  }
  return loops;
}

// Other loops are other requests: what is fitted on closed loops may be scored on open ones of the
// same seed.
std::uint64_t traffic_seed(std::uint64_t seed, const std::vector<SessionLoop>& loops) {
  std::uint64_t hash = seed;
  for (const SessionLoop& loop : loops)
    for (const double part : {static_cast<double>(loop.concurrency), loop.open.rate,
                              loop.open.arrivals ? loop.open.speed : 0.0, loop.open.pass_ms})
      hash = (hash ^ std::bit_cast<std::uint64_t>(part)) * 0x9e3779b97f4a7c15ull;
  return hash;
}

std::string text_of(const SessionLoop& loop, const GenerateOptions& options) {
  if (!loop.is_open()) return fmt::format("closed {}", loop.concurrency);
  const std::string pass = fmt::format("{} ms a pass", options.pass_ms);
  if (loop.open.arrivals)
    return fmt::format("open {} at {}x, {}", loop.open.arrivals->name, loop.open.speed, pass);
  return fmt::format("open {}/s, {}", loop.open.rate, pass);
}

void check_options(const GenerateOptions& options) {
  check_model(options.model);
  auto positive = [](const char* name, long long value, long long limit) {
    if (value < 1 || value > limit)
      throw Error(name, fmt::format("{}", value), fmt::format("1 .. {}", limit),
                  "see ramp trace generate --help");
  };
  positive("--repeats", options.repeats, 1000);
  positive("--passes", options.passes, 1'000'000);
  positive("--stride", options.stride, 100'000);
  positive("--max-tokens", options.max_tokens, 1 << 17);
  positive("domains", static_cast<long long>(options.domains.size()), 256);
  positive("loops", static_cast<long long>(loops_of(options).size()), 256);
  for (const int c : options.concurrency) positive("--concurrency", c, 8192);
  for (const SessionLoop& loop : loops_of(options))
    if (loop.is_open()) check_open_loop(loop.open);
  if (options.layers < 0 || options.layers > options.model.moe_layers)
    throw Error("--layers", fmt::format("{}", options.layers),
                fmt::format("0 (all) .. {}", options.model.moe_layers),
                "see ramp trace generate --help");
  if (!(options.burst_share >= 0 && options.burst_share <= 1))
    throw Error("--burst-share", fmt::format("{}", options.burst_share), "0 .. 1",
                "for example 0.3");
}

}  // namespace

GenerateOptions table_traffic(const Model& model, const Calibration& calibration) {
  GenerateOptions options;
  options.model = model;
  options.calibration = calibration;
  options.concurrency = {152};  // gives the batches that the paper's uniform column implies
  options.repeats = 1;
  options.passes = 128;
  options.stride = kTableStride;
  options.burst_share = 0;
  return options;
}

TraceInfo generated_info(const GenerateOptions& options) {
  TraceInfo info;
  info.model = options.model.name;
  info.experts = options.model.shape.experts;
  info.top_k = options.model.shape.top_k;
  const int layers = options.layers == 0 ? options.model.moe_layers : options.layers;
  for (int i = 0; i < layers; ++i) info.layers.push_back(options.model.first_moe_layer + i);
  info.kind = TraceKind::kGenerated;
  info.phase = TracePhase::kMixed;
  info.source = "ramp trace generate";
  info.licence = "Apache-2.0";
  info.seed = options.seed;
  const Calibration& c = options.calibration;
  info.calibration =
      options.uniform
          ? "uniform"
          : fmt::format("{} (g {:.3f} d {:.3f} p {:.3f} r {:.3f} block {:.3f} tail {:.3f})",
                        c.model, c.popularity, c.domain, c.drift, c.request, c.block, c.tail);
  std::string loops;
  for (const SessionLoop& loop : loops_of(options))
    loops += (loops.empty() ? "" : ", ") + text_of(loop, options);
  info.made = fmt::format("sessions: {}; {} passes of each, every {}th; {} of each kind a domain",
                          loops, options.passes, options.stride, options.repeats);
  return info;
}

void generate_passes(const GenerateOptions& options,
                     const std::function<void(const GeneratedPass&)>& sink) {
  check_options(options);
  const int layers = options.layers == 0 ? options.model.moe_layers : options.layers;
  const std::size_t row = static_cast<std::size_t>(layers) * options.model.shape.top_k;
  const std::vector<SessionLoop> loops = loops_of(options);
  const int domains = static_cast<int>(options.domains.size());
  const std::uint64_t traffic = traffic_seed(options.seed, loops);
  GeneratedRouter router(options.model, options.calibration, layers, domains, options.uniform,
                         options.seed, traffic);
  Random random(traffic, 202);
  std::uint64_t next_request = 0;
  int done = 0, sessions = 0;
  const int total = domains * static_cast<int>(loops.size()) * options.repeats * options.passes;
  std::vector<GeneratedRun> runs;
  std::vector<std::int16_t> ids;
  const auto one_session = [&](int domain, const SessionLoop& loop) {
    router.begin_session(domain);
    GeneratedSession session(router, random, options.domains[domain], loop,
                             traffic + static_cast<std::uint64_t>(++sessions), next_request);
    for (int p = 0; p < options.passes; ++p) {
      std::vector<BatchPart> parts;
      for (int s = 0; s < options.stride; ++s) parts = session.next();
      router.begin_pass(options.stride);
      if (random.uniform() < options.burst_share) {
        const double low =
            std::log2(std::min(options.max_tokens, std::max(32, 2 * loop.concurrency)));
        const double high = std::log2(options.max_tokens);
        session.add_burst(
            parts, static_cast<int>(std::lround(std::exp2(low + (high - low) * random.uniform()))));
      }
      runs.clear();
      std::size_t tokens = 0;
      for (const BatchPart& part : parts) tokens += part.tokens;
      ids.resize(tokens * row);
      std::int16_t* out = ids.data();
      for (const BatchPart& part : parts) {
        runs.push_back({part.request, domain, part.tokens, part.is_prompt ? part.tokens : 0});
        const std::vector<float>& taste = session.taste_of(part.request);
        for (int t = 0; t < part.tokens; ++t, out += row) router.draw(taste, out);
      }
      sink({runs, ids, ++done, total});
    }
  };
  for (int domain = 0; domain < domains; ++domain)
    for (const SessionLoop& loop : loops)
      for (int repeat = 0; repeat < options.repeats; ++repeat) one_session(domain, loop);
}

RoutingTrace generate_trace(const GenerateOptions& options) {
  RoutingTrace trace;
  trace.info = generated_info(options);
  trace.domains = options.domains;
  trace.pass_offsets = {0};
  std::vector<std::vector<std::int64_t>> members;  // of each request
  std::unordered_map<std::uint64_t, std::size_t> index_of;
  generate_passes(options, [&](const GeneratedPass& pass) {
    std::int64_t token = trace.tokens();
    trace.ids.insert(trace.ids.end(), pass.ids.begin(), pass.ids.end());
    for (const GeneratedRun& run : pass.runs) {
      // Requests that came and went between two recorded passes have no index.
      const auto [found, is_new] = index_of.try_emplace(run.request, members.size());
      if (is_new) {
        members.emplace_back();
        trace.requests.push_back({run.domain, 0, 0, 0});
      }
      trace.requests[found->second].prompt += run.prompt;
      for (int i = 0; i < run.tokens; ++i) members[found->second].push_back(token++);
    }
    trace.pass_offsets.push_back(token);
  });
  for (std::size_t r = 0; r < members.size(); ++r) {
    trace.requests[r].first = static_cast<std::int64_t>(trace.order.size());
    trace.requests[r].tokens = static_cast<int>(members[r].size());
    trace.order.insert(trace.order.end(), members[r].begin(), members[r].end());
  }
  check_trace(trace);
  return trace;
}

}  // namespace ramp
