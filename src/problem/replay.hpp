// SPDX-License-Identifier: Apache-2.0
// From requests to forward passes: continuous batching (serving.hpp) replayed on a trace's own
// requests.  Closed loop: `concurrency` requests are always active, a finished one is replaced at
// once.  Open loop: requests arrive at random at a rate, or when an arrival trace says so, and a
// pass takes the time that it is told.
//
// A trace that holds one phase only has no prompts to prefill (decode) or nothing to decode
// (prefill); then every token of a request is replayed as if decoded, one a pass.
//
// An arrival trace brings lengths of its own, which no routing trace has requests for.  Then an
// arrival takes the tokens of a request, in order, and those of further requests of the same domain
// where they run out; prompts from prompts and answers from answers where the trace has both, else
// one after the other.  An answer of n tokens takes n - 1 decode passes: the prompt's last pass
// gives the first.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "problem/random.hpp"
#include "problem/serving.hpp"
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
  int waiting = 0;                   // requests that found no place
  double start_s = 0;                // open loop: since the replay began
};

struct ReplayOptions {
  int concurrency = 64;     // closed loop
  double rate = 0;          // open loop if above 0: requests per second
  double pass_ms = 20;      // open loop: time of a pass
  int token_budget = 2048;  // of a pass; decoding requests go first
  Prompts prompts = Prompts::kAuto;
  std::uint64_t seed = 1;
  // Open loop by an arrival trace, which must outlive the replay (serving.hpp says what these are).
  const ArrivalTrace* arrivals = nullptr;
  double speed = 1;
  bool keep_lengths = false;  // the arrivals' times alone; lengths are those of the routing trace
  double token_us = 0;
  int max_active = 256;  // open loop

  bool is_open_loop() const { return rate > 0 || arrivals; }
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
  struct Cursor {
    int request, at, end;  // tokens [at, end) of the request are still to come
  };
  struct Stream {
    Cursor tokens;
    std::optional<Cursor> prompt;  // where prompts are taken from, if not from `tokens`
    int domain;
    int first_request;  // whose place this is
    int prompt_left;
  };
  void start_closed_loop();
  void admit();
  void add(Stream stream, int output);
  void add_own(int request, int at);
  void add_arrival(const Arrival& arrival);
  int take_request();
  int prompt_of(const TraceRequest& request) const;
  Cursor segment(int request, bool is_prompt) const;
  std::int64_t take_token(Stream& stream, bool is_prompt);
  void finish(ForwardPass& pass) const;

  const RoutingTrace& trace_;
  std::vector<int> pool_;
  std::vector<std::vector<int>> of_domain_;  // the pool's requests
  ReplayOptions options_;
  bool has_both_phases_, stream_;
  Random random_;
  Scheduler scheduler_;
  std::optional<OpenLoop> open_loop_;
  std::map<std::uint64_t, Stream> streams_;  // of active and waiting requests, oldest first
  std::uint64_t next_stream_ = 0;
  std::vector<int> queue_;  // shuffled requests still to come; refilled when empty
};

// The recorded pass p as a ForwardPass.
ForwardPass recorded_pass(const RoutingTrace& trace, int pass,
                          std::span<const std::int32_t> request_of_token);
// [tokens]: the request of each token, -1 for none.
std::vector<std::int32_t> request_of_tokens(const RoutingTrace& trace);

}  // namespace ramp
