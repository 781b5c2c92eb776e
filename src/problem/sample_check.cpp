// SPDX-License-Identifier: Apache-2.0
// What sampling refuses.
#include <algorithm>

#include "base/error.hpp"
#include "problem/sample.hpp"

namespace ramp {
namespace {

void check_fits(const RoutingTrace& trace, const MoeShape& shape) {
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
}

}  // namespace

void check_sample(const RoutingTrace& trace, const MoeShape& shape, const Layout& layout,
                  const SampleOptions& options) {
  check_fits(trace, shape);
  check_layout(shape, layout);
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
  if (options.rebalance_every < 0 || options.rebalance_every > 1'000'000)
    throw Error("--placement every-N", fmt::format("{}", options.rebalance_every), "1 .. 1,000,000",
                "for example every-128");
  for (const int layer : options.layers)
    if (layer < 0 || layer >= trace.layers())
      throw Error("layers", fmt::format("{}", layer), fmt::format("0 .. {}", trace.layers() - 1),
                  "ramp trace info lists them");
  if (options.rebalance_every > 0 && !layout.is_expert_parallel())
    throw Error("--placement", layout.name(), "a layout epN",
                "a tpN layout has every expert on every GPU");
  const RoutingTrace& scored = options.test_trace ? *options.test_trace : trace;
  if (scored.passes() > 0 && (!options.test_rates.empty() || options.test_arrivals))
    throw Error("--test-rate, --test-arrivals", "a trace of recorded passes",
                "a trace of requests, which can be batched anew",
                "record or generate open-loop traffic apart and score on it (--test-trace)");
  if (!options.test_trace) return;
  const RoutingTrace& other = *options.test_trace;
  check_fits(other, shape);
  if (other.info.layers != trace.info.layers)
    throw Error("--test-trace", fmt::format("{} layers", other.info.layers.size()),
                fmt::format("the {} layers of the other trace", trace.info.layers.size()),
                "record or generate the same layers");
  if (!options.held_out_domain.empty())
    throw Error("--held-out", options.held_out_domain, "nothing beside --test-trace",
                "leave one of the two out");
}

}  // namespace ramp
