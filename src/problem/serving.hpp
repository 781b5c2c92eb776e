// SPDX-License-Identifier: Apache-2.0
// Continuous batching with chunked prefill, on lengths alone: which requests give how many tokens
// to a forward pass (Section 2.3).  Recorded and generated routing are batched by this one
// scheduler: replay.hpp maps its parts to tokens of a trace, trace_generate.hpp draws them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "problem/arrivals.hpp"
#include "problem/random.hpp"

namespace ramp {

// What one request gives to one pass: one decoded token, or a chunk of its prompt.
struct BatchPart {
  std::uint64_t request = 0;  // as given to add()
  int tokens = 0;
  bool is_prompt = false;
  bool is_last = false;  // the request is finished
};

class Scheduler {
 public:
  // token_budget: tokens of a pass.  max_active: requests that run at once, as vLLM's
  // max_num_seqs; the others wait.  0: no limit.
  Scheduler(int token_budget, int max_active);

  // A request with so many tokens still to prefill and then to decode; one of none is ignored.
  void add(std::uint64_t request, int prompt, int output);

  // The next pass.  Decoding requests come first, each with one token; prompts share what is left
  // of the budget, first come first served.
  std::vector<BatchPart> next();

  int active() const { return static_cast<int>(active_.size()); }  // running
  int waiting() const { return static_cast<int>(waiting_.size()); }
  bool is_idle() const { return active_.empty() && waiting_.empty(); }

 private:
  struct Request {
    std::uint64_t name;
    int prompt, output;  // still to come
  };
  int token_budget_, max_active_;
  std::vector<Request> active_;
  std::deque<Request> waiting_;
};

// Open loop: requests arrive whether or not the server keeps up.  At random with `rate` (Poisson),
// or when an arrival trace says so.  A pass takes pass_ms and token_us for each of its tokens:
// these two stand for the model and the machine.
struct OpenLoopOptions {
  double rate = 0;                         // requests per second, or
  const ArrivalTrace* arrivals = nullptr;  // must outlive the loop; begins again at its end
  double speed = 1;                        // the trace's clock runs so much faster
  double pass_ms = 20;
  double token_us = 0;
};

// Throws Error for values out of range; the fields are named as the flags of `ramp trace replay`.
void check_open_loop(const OpenLoopOptions& options);

class OpenLoop {
 public:
  OpenLoop(const OpenLoopOptions& options, std::uint64_t seed);

  // Hands over everything that has arrived by now; an idle server waits for the next arrival first.
  // Poisson arrivals have no lengths (0, 0).
  void admit(const Scheduler& scheduler, const std::function<void(const Arrival&)>& add);
  // The pass that was admitted to took its time.
  void passed(int tokens);
  double now_s() const { return now_s_; }

 private:
  void advance();

  OpenLoopOptions options_;
  Random random_;
  double now_s_ = 0;
  double next_s_ = 0;     // when the next request arrives
  double lap_s_ = 0;      // where the trace began this time
  std::size_t next_ = 0;  // of the trace
};

}  // namespace ramp
