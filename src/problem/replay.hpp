// SPDX-License-Identifier: Apache-2.0
// From requests to forward passes: continuous batching replayed on a trace's own requests.  Closed
// loop: `concurrency` requests are always active, a finished one is replaced at once.  Open loop:
// requests arrive at random at a fixed rate and a pass takes a fixed time.  Each active request
// gives one token a pass; prompts are prefilled in chunks that share the pass's token budget with
// the decoding requests, as in vLLM.
//
// A trace that holds one phase only has no prompts to prefill (decode) or nothing to decode
// (prefill); then every token of a request is replayed as if decoded, one a pass.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "problem/random.hpp"
#include "problem/trace.hpp"

namespace ramp {

enum class Prompts {
  kAuto,     // prefill where the trace has both phases, else stream
  kPrefill,  // prompt tokens in chunks, the others one a pass
  kStream,   // every token one a pass
};

struct ForwardPass {
  std::vector<std::int64_t> tokens;  // indexes into the trace
  int prefill_tokens = 0;            // the last ones of them
  int domain = -1;                   // of all its tokens; -1: several
};

struct ReplayOptions {
  int concurrency = 64;     // closed loop
  double rate = 0;          // open loop if above 0: requests per second
  double pass_ms = 20;      // open loop: time of a pass
  int token_budget = 2048;  // of a pass; decoding requests go first
  Prompts prompts = Prompts::kAuto;
  std::uint64_t seed = 1;
};

class Replay {
 public:
  // requests: indexes into trace.requests, at least one with tokens.  The trace must outlive the
  // replay.
  Replay(const RoutingTrace& trace, std::span<const int> requests, const ReplayOptions& options);

  ForwardPass next();
  void skip(int passes);

  // A burst: the active requests' tokens and whole prompts of waiting ones until the pass holds
  // `tokens` tokens.  No token twice, so a small pool gives less.  In a trace without prompts the
  // first tokens of a request stand for one.
  ForwardPass next_with_burst(int tokens);

 private:
  struct Active {
    int request;
    int at;       // next token
    int prefill;  // tokens still to prefill before it decodes
  };
  void admit();
  int take_request();
  int prompt_of(const TraceRequest& request) const;
  void finish(ForwardPass& pass) const;

  const RoutingTrace& trace_;
  std::vector<int> pool_;
  ReplayOptions options_;
  bool stream_;
  Random random_;
  std::vector<Active> active_;
  std::vector<int> queue_;  // shuffled requests still to come; refilled when empty
  double clock_s_ = 0, next_arrival_s_ = 0;
};

// Two groups with no request in both, the same share of every domain; a held-out domain is the
// whole test group.
struct RequestSplit {
  std::vector<int> train, test;
};
RequestSplit split_requests(const RoutingTrace& trace, double test_share, std::uint64_t seed,
                            const std::string& held_out_domain = "");

// The same for a trace of passes: passes that share requests stay together; where all hang
// together, by time, and passes with a request of both times belong to neither.  how: what was
// done, for people.
struct PassSplit {
  std::vector<int> train, test;
  std::string how;
};
PassSplit split_passes(const RoutingTrace& trace, double test_share, std::uint64_t seed,
                       const std::string& held_out_domain = "");

// The recorded pass p as a ForwardPass.
ForwardPass recorded_pass(const RoutingTrace& trace, int pass,
                          std::span<const std::int32_t> request_of_token);
// [tokens]: the request of each token, -1 for none.
std::vector<std::int32_t> request_of_tokens(const RoutingTrace& trace);

}  // namespace ramp
