// SPDX-License-Identifier: Apache-2.0
#include "problem/trace.hpp"

#include "base/error.hpp"

namespace ramp {

const char* text_of(TraceKind kind) {
  return kind == TraceKind::kRecorded ? "recorded" : "generated";
}
const char* text_of(IdSpace space) { return space == IdSpace::kLogical ? "logical" : "physical"; }
const char* text_of(TracePhase phase) {
  switch (phase) {
    case TracePhase::kPrefill:
      return "prefill";
    case TracePhase::kDecode:
      return "decode";
    case TracePhase::kMixed:
      return "mixed";
    default:
      return "unknown";
  }
}

void check_trace_info(const TraceInfo& info) {
  if (info.experts < 1 || info.experts > 32766)
    throw Error("trace.experts", fmt::format("{}", info.experts), "1 .. 32766",
                "check the source of the trace");
  if (info.top_k < 1 || info.top_k > 64 || info.top_k > info.experts)
    throw Error("trace.top_k", fmt::format("{}", info.top_k),
                fmt::format("1 .. min(64, E = {})", info.experts), "check the source of the trace");
  if (info.layers.empty() || info.layers.size() > 4096)
    throw Error("trace.layers", fmt::format("{} layers", info.layers.size()), "1 .. 4096",
                "check the source of the trace");
  for (std::size_t i = 0; i < info.layers.size(); ++i)
    if (info.layers[i] < 0 || info.layers[i] > 65535 ||
        (i > 0 && info.layers[i] <= info.layers[i - 1]))
      throw Error(fmt::format("trace.layers[{}]", i), fmt::format("{}", info.layers[i]),
                  "decoder layers, ascending", "check the source of the trace");
}

void check_trace(const RoutingTrace& trace) {
  check_trace_info(trace.info);
  const std::int64_t tokens = trace.tokens();
  if (static_cast<std::int64_t>(trace.ids.size()) != tokens * trace.row_ids())
    throw Error("trace.ids", fmt::format("{} ids", trace.ids.size()),
                fmt::format("a multiple of layers x k = {}", trace.row_ids()),
                "check the importer");
  const std::int64_t members =
      trace.order.empty() ? tokens : static_cast<std::int64_t>(trace.order.size());
  for (std::size_t r = 0; r < trace.requests.size(); ++r) {
    const TraceRequest& request = trace.requests[r];
    if (request.first < 0 || request.tokens < 0 || request.first > members - request.tokens ||
        request.prompt < 0 || request.prompt > request.tokens || request.domain < 0 ||
        request.domain >= static_cast<int>(trace.domains.size()))
      throw Error(fmt::format("request {}", r),
                  fmt::format("first {} tokens {} prompt {} domain {}", request.first,
                              request.tokens, request.prompt, request.domain),
                  fmt::format("inside {} tokens and {} domains", members, trace.domains.size()),
                  "check the request table");
  }
  for (const std::int64_t token : trace.order)
    if (token < 0 || token >= tokens)
      throw Error("trace.order", fmt::format("{}", token), fmt::format("0 .. {}", tokens - 1),
                  "check the request table");
  for (std::size_t p = 0; p < trace.pass_offsets.size(); ++p) {
    const std::int64_t low = p == 0 ? 0 : trace.pass_offsets[p - 1];
    if (trace.pass_offsets[p] < low || trace.pass_offsets[p] > tokens)
      throw Error(fmt::format("pass_offsets[{}]", p), fmt::format("{}", trace.pass_offsets[p]),
                  fmt::format("{} .. {}, ascending", low, tokens), "check the pass boundaries");
  }
  for (const std::int16_t id : trace.ids)
    if (id < -1 || id >= trace.info.experts)
      throw Error("expert id", fmt::format("{}", id),
                  fmt::format("-1 .. {}", trace.info.experts - 1),
                  "check E, or import with --force to turn such ids into padding");
}

int domain_index(RoutingTrace& trace, const std::string& domain) {
  for (std::size_t i = 0; i < trace.domains.size(); ++i)
    if (trace.domains[i] == domain) return static_cast<int>(i);
  if (static_cast<int>(trace.domains.size()) >= kMaxDomains)
    throw Error("domains", fmt::format("more than {}", kMaxDomains),
                "kinds of text, not names of requests", "group the requests into fewer domains");
  trace.domains.push_back(domain);
  return static_cast<int>(trace.domains.size()) - 1;
}

std::string routing_label(const TraceInfo& info) {
  if (info.kind == TraceKind::kGenerated)
    return fmt::format("generated: {}, seed {}", info.calibration, info.seed);
  return fmt::format("recorded: {}", info.source.empty() ? info.model : info.source);
}

}  // namespace ramp
