// SPDX-License-Identifier: Apache-2.0
#include "problem/pass_counts.hpp"

#include <algorithm>
#include <unordered_set>

#include "problem/load.hpp"

namespace ramp {
namespace {

PassCounts like(const RoutingTrace& trace) {
  PassCounts out;
  out.experts = trace.info.experts;
  out.top_k = trace.info.top_k;
  out.layers = trace.layers();
  out.domains = trace.domains;
  return out;
}

void add(PassCounts& out, const RoutingTrace& trace, const ForwardPass& pass, int session) {
  out.passes.push_back({session, pass.domain, 0});
  for (int layer = 0; layer < out.layers; ++layer) {
    const LayerLoad load = count_load(trace, pass.tokens, layer);
    out.passes.back().tokens = std::max(out.passes.back().tokens, load.tokens);
    out.counts.insert(out.counts.end(), load.experts.begin(), load.experts.end());
  }
}

}  // namespace

std::vector<int> sessions_of_passes(const RoutingTrace& trace) {
  const std::vector<std::int32_t> request_of = request_of_tokens(trace);
  std::unordered_set<std::int32_t> before;
  std::vector<int> sessions;
  int session = 0;
  for (int p = 0; p < trace.passes(); ++p) {
    std::unordered_set<std::int32_t> now;
    bool goes_on = false;
    for (std::int64_t t = trace.pass_offsets[p]; t < trace.pass_offsets[p + 1]; ++t) {
      now.insert(request_of[t]);
      goes_on = goes_on || before.contains(request_of[t]);
    }
    session += p > 0 && !goes_on;
    before = std::move(now);
    sessions.push_back(session);
  }
  return sessions;
}

PassCounts recorded_counts(const RoutingTrace& trace) {
  PassCounts out = like(trace);
  const std::vector<std::int32_t> request_of = request_of_tokens(trace);
  const std::vector<int> sessions = sessions_of_passes(trace);
  for (int p = 0; p < trace.passes(); ++p)
    add(out, trace, recorded_pass(trace, p, request_of), sessions[p]);
  return out;
}

PassCounts replayed_counts(const RoutingTrace& trace, const ReplayOptions& options, int passes) {
  PassCounts out = like(trace);
  std::vector<std::vector<int>> of_domain(trace.domains.size());
  for (std::size_t r = 0; r < trace.requests.size(); ++r)
    if (trace.requests[r].tokens > 0)
      of_domain[trace.requests[r].domain].push_back(static_cast<int>(r));
  int session = 0;
  for (const std::vector<int>& requests : of_domain) {
    if (requests.empty()) continue;
    Replay replay(trace, requests, options);
    for (int p = 0; p < passes; ++p) add(out, trace, replay.next(), session);
    ++session;
  }
  return out;
}

PassCounts generated_counts(const GenerateOptions& options) {
  PassCounts out;
  out.experts = options.model.shape.experts;
  out.top_k = options.model.shape.top_k;
  out.layers = options.layers == 0 ? options.model.moe_layers : options.layers;
  out.domains = options.domains;
  generate_passes(options, [&](const GeneratedPass& pass) {
    const std::size_t begin = out.counts.size();
    const std::size_t row = static_cast<std::size_t>(out.layers) * out.top_k;
    out.counts.resize(begin + static_cast<std::size_t>(out.layers) * out.experts);
    for (std::size_t i = 0; i < pass.ids.size(); ++i)
      ++out.counts[begin + i % row / out.top_k * out.experts + pass.ids[i]];
    out.passes.push_back({(pass.done - 1) / options.passes, pass.runs.front().domain,
                          static_cast<int>(pass.ids.size() / row)});
  });
  return out;
}

}  // namespace ramp
