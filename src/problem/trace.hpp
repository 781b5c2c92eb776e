// SPDX-License-Identifier: Apache-2.0
// A routing trace in memory: the expert ids that the router chose for each token, in each MoE
// layer.  Ids are global, so one trace replays under every layout and placement.
//
// Words.  Row: one token in one layer, k ids; -1 pads.  Request: a user's tokens in order, the
// first `prompt` of them prefill.  Domain: the kind of text a request belongs to.  Pass: one
// forward pass of the server that was recorded; passes are ranges of the token axis.  A trace has
// requests, or passes, or both: replay.hpp makes passes from requests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ramp {

enum class TraceKind { kRecorded, kGenerated };
enum class TracePhase { kUnknown, kPrefill, kDecode, kMixed };
// Logical: the model's experts.  Physical: a server's copies of them (redundant experts).
enum class IdSpace { kLogical, kPhysical };

struct TraceInfo {
  std::string model;        // catalog name where there is one
  int experts = 0;          // E
  int top_k = 0;            // k
  std::vector<int> layers;  // decoder layer of each row of a token, ascending
  TraceKind kind = TraceKind::kRecorded;
  TracePhase phase = TracePhase::kUnknown;
  IdSpace id_space = IdSpace::kLogical;
  std::string
      source;  // where it comes from: repository @ commit, engine, or the generator's version
  std::string licence;
  std::string made;         // what was done to it: dropped, converted, sampled
  std::string calibration;  // generated: the model and numbers of the calibration
  std::uint64_t seed = 0;   // generated
};

struct TraceRequest {
  int domain = 0;          // index into RoutingTrace::domains
  int prompt = 0;          // tokens of the prompt that are in the trace
  std::int64_t first = 0;  // into RoutingTrace::order, or into the tokens where order is empty
  int tokens = 0;
};

struct RoutingTrace {
  TraceInfo info;
  std::vector<std::string> domains;
  std::vector<TraceRequest> requests;
  // The tokens of request r are order[first .. first + tokens); empty: a request's tokens lie
  // together and in order.
  std::vector<std::int64_t> order;
  // Pass p is the tokens [pass_offsets[p], pass_offsets[p + 1]); empty: unknown.
  std::vector<std::int64_t> pass_offsets;
  std::vector<std::int16_t> ids;  // [token][layer][k]

  int layers() const { return static_cast<int>(info.layers.size()); }
  std::int64_t row_ids() const { return static_cast<std::int64_t>(layers()) * info.top_k; }
  std::int64_t tokens() const {
    return row_ids() == 0 ? 0 : static_cast<std::int64_t>(ids.size()) / row_ids();
  }
  int passes() const {
    return pass_offsets.empty() ? 0 : static_cast<int>(pass_offsets.size()) - 1;
  }

  // The k ids of one token in one layer (row index, not decoder layer).
  std::span<const std::int16_t> row(std::int64_t token, int layer) const {
    return {ids.data() + token * row_ids() + static_cast<std::int64_t>(layer) * info.top_k,
            static_cast<std::size_t>(info.top_k)};
  }
  std::int64_t token_of(const TraceRequest& request, int i) const {
    return order.empty() ? request.first + i : order[request.first + i];
  }
};

const char* text_of(TraceKind kind);
const char* text_of(TracePhase phase);
const char* text_of(IdSpace space);

// Throws Error unless E, k and the layers make sense (1 <= k <= E <= 32766, layers ascending).
void check_trace_info(const TraceInfo& info);

// Throws Error where requests, order or passes point outside the tokens, or an id is outside -1 ..
// E-1.
void check_trace(const RoutingTrace& trace);

inline constexpr int kMaxDomains = 4096;

// Domain's index, added at the end where it is new; throws Error for more than kMaxDomains.
int domain_index(RoutingTrace& trace, const std::string& domain);

// "recorded: <source>" or "generated: <calibration, seed>", for provenance.
std::string routing_label(const TraceInfo& info);

}  // namespace ramp
