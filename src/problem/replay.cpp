// SPDX-License-Identifier: Apache-2.0
#include "problem/replay.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/error.hpp"

namespace ramp {
namespace {

bool has_both_phases(const RoutingTrace& trace) {
  bool prompt = false, decode = false;
  for (const TraceRequest& request : trace.requests) {
    prompt = prompt || request.prompt > 0;
    decode = decode || request.tokens > request.prompt;
  }
  return prompt && decode;
}

}  // namespace

Replay::Replay(const RoutingTrace& trace, std::span<const int> requests,
               const ReplayOptions& options)
    : trace_(trace),
      options_(options),
      has_both_phases_(has_both_phases(trace)),
      random_(options.seed, 17),
      scheduler_(options.token_budget, options.is_open_loop() ? options.max_active : 0) {
  of_domain_.resize(trace.domains.size());
  for (const int r : requests)
    if (trace.requests.at(r).tokens > 0) {
      pool_.push_back(r);
      of_domain_[trace.requests[r].domain].push_back(r);
    }
  if (pool_.empty())
    throw Error("requests", "none with tokens", "a trace grouped by request",
                "import one with request_offsets, or use its recorded passes");
  if (options.concurrency < 1 || options.concurrency > 65536)
    throw Error("--concurrency", fmt::format("{}", options.concurrency), "1 .. 65536",
                "for example 64");
  if (!(options.rate >= 0))
    throw Error("--rate", fmt::format("{}", options.rate), "0 (closed loop) and more",
                "for example 16");
  stream_ = options.prompts == Prompts::kStream ||
            (options.prompts == Prompts::kAuto && !has_both_phases_);
  if (options_.is_open_loop())
    open_loop_.emplace(OpenLoopOptions{options.rate, options.arrivals, options.speed,
                                       options.pass_ms, options.token_us},
                       options.seed);
  else
    start_closed_loop();
}

// A loop that has run for long: each active request is somewhere inside, longer ones more often.
void Replay::start_closed_loop() {
  std::vector<std::int64_t> ends;
  std::int64_t total = 0;
  for (const int r : pool_) ends.push_back(total += trace_.requests[r].tokens);
  std::unordered_set<int> used;
  const bool distinct = pool_.size() >= 2 * static_cast<std::size_t>(options_.concurrency);
  while (static_cast<int>(streams_.size()) < options_.concurrency) {
    const auto token = static_cast<std::int64_t>(random_.below(total));
    const std::size_t i = std::upper_bound(ends.begin(), ends.end(), token) - ends.begin();
    if (distinct && !used.insert(pool_[i]).second) continue;
    const TraceRequest& request = trace_.requests[pool_[i]];
    const int at = static_cast<int>(request.tokens - (ends[i] - token));
    // Inside its prompt: it is admitted now, from the start.
    add_own(pool_[i], at < prompt_of(request) ? 0 : at);
  }
}

int Replay::prompt_of(const TraceRequest& request) const { return stream_ ? 0 : request.prompt; }

int Replay::take_request() {
  if (queue_.empty()) {
    queue_ = pool_;
    random_.shuffle(queue_);
  }
  const int request = queue_.back();
  queue_.pop_back();
  return request;
}

void Replay::add(Stream stream, int output) {
  scheduler_.add(next_stream_, stream.prompt_left, output);
  streams_.emplace(next_stream_++, std::move(stream));
}

// The request as it is in the trace, from its token `at` on.
void Replay::add_own(int r, int at) {
  const TraceRequest& request = trace_.requests[r];
  const int prompt = std::max(0, prompt_of(request) - at);
  add({{r, at, request.tokens}, std::nullopt, request.domain, r, prompt},
      request.tokens - at - prompt);
}

void Replay::add_arrival(const Arrival& arrival) {
  const int r = take_request();
  if (arrival.prompt + arrival.output == 0 || options_.keep_lengths) return add_own(r, 0);
  int prompt = arrival.prompt, output = std::max(0, arrival.output - 1);
  if (options_.prompts == Prompts::kStream) {
    output += prompt;
    prompt = 0;
  }
  if (prompt + output == 0) output = 1;
  const bool apart = has_both_phases_ && prompt > 0;
  Stream stream{apart ? segment(r, false) : Cursor{r, 0, trace_.requests[r].tokens}, std::nullopt,
                trace_.requests[r].domain, r, prompt};
  if (apart) stream.prompt = segment(r, true);
  add(std::move(stream), output);
}

// The prompt or the answer of a request; all of one that has only the other.
Replay::Cursor Replay::segment(int r, bool is_prompt) const {
  const TraceRequest& request = trace_.requests[r];
  if (request.prompt == 0 || request.prompt == request.tokens) return {r, 0, request.tokens};
  return is_prompt ? Cursor{r, 0, request.prompt} : Cursor{r, request.prompt, request.tokens};
}

std::int64_t Replay::take_token(Stream& stream, bool is_prompt) {
  Cursor& from = is_prompt && stream.prompt ? *stream.prompt : stream.tokens;
  if (from.at == from.end) {
    const std::vector<int>& others = of_domain_[stream.domain];
    const int r = others[random_.below(others.size())];
    from = stream.prompt ? segment(r, is_prompt) : Cursor{r, 0, trace_.requests[r].tokens};
  }
  stream.prompt_left -= is_prompt;
  return trace_.token_of(trace_.requests[from.request], from.at++);
}

void Replay::admit() {
  if (open_loop_)
    open_loop_->admit(scheduler_, [this](const Arrival& arrival) { add_arrival(arrival); });
  else
    while (static_cast<int>(streams_.size()) < options_.concurrency) add_own(take_request(), 0);
}

ForwardPass Replay::next() {
  admit();
  ForwardPass pass;
  for (const BatchPart& part : scheduler_.next()) {
    const auto stream = streams_.find(part.request);
    for (int i = 0; i < part.tokens; ++i)
      pass.tokens.push_back(take_token(stream->second, part.is_prompt));
    if (part.is_prompt) pass.prefill_tokens += part.tokens;
    if (part.is_last) streams_.erase(stream);
  }
  pass.waiting = scheduler_.waiting();
  if (open_loop_) {
    pass.start_s = open_loop_->now_s();
    open_loop_->passed(static_cast<int>(pass.tokens.size()));
  }
  finish(pass);
  return pass;
}

void Replay::skip(int passes) {
  for (int i = 0; i < passes; ++i) next();
}

ForwardPass Replay::next_with_burst(int tokens) {
  admit();
  ForwardPass pass;
  std::unordered_set<std::int64_t> seen;
  std::unordered_set<int> used;
  auto put = [&](std::int64_t token) {
    if (seen.insert(token).second) pass.tokens.push_back(token);
  };
  for (const auto& [name, stream] : streams_) {
    used.insert(stream.first_request);
    const Cursor& at = stream.tokens;
    if (stream.prompt_left == 0 && at.at < at.end && static_cast<int>(pass.tokens.size()) < tokens)
      put(trace_.token_of(trace_.requests[at.request], at.at));
  }
  const int decoding = static_cast<int>(pass.tokens.size());
  std::vector<int> waiting;
  for (const int r : pool_)
    if (!used.contains(r)) waiting.push_back(r);
  if (waiting.empty()) waiting = pool_;
  random_.shuffle(waiting);
  for (const int r : waiting) {
    const TraceRequest& request = trace_.requests[r];
    int prompt = request.prompt;
    if (prompt == 0) {
      // 32 .. 1,024, evenly on a logarithmic scale: the lengths of chat prompts.
      prompt = static_cast<int>(32 * std::exp2(5 * random_.uniform()));
      prompt = std::min(prompt, request.tokens);
    }
    for (int i = 0; i < prompt && static_cast<int>(pass.tokens.size()) < tokens; ++i)
      put(trace_.token_of(request, i));
    if (static_cast<int>(pass.tokens.size()) >= tokens) break;
  }
  pass.prefill_tokens = static_cast<int>(pass.tokens.size()) - decoding;
  finish(pass);
  return pass;
}

void Replay::finish(ForwardPass& pass) const {
  // The pool says it: a replay of one domain has one, and a mixed one is called mixed even where
  // chance made it pure.
  pass.domain = trace_.requests[pool_.front()].domain;
  for (const int r : pool_)
    if (trace_.requests[r].domain != pass.domain) {
      pass.domain = -1;
      return;
    }
}

std::vector<std::int32_t> request_of_tokens(const RoutingTrace& trace) {
  std::vector<std::int32_t> request_of(trace.tokens(), -1);
  for (std::size_t r = 0; r < trace.requests.size(); ++r)
    for (int i = 0; i < trace.requests[r].tokens; ++i)
      request_of[trace.token_of(trace.requests[r], i)] = static_cast<std::int32_t>(r);
  return request_of;
}

ForwardPass recorded_pass(const RoutingTrace& trace, int p,
                          std::span<const std::int32_t> request_of_token) {
  ForwardPass pass;
  bool first = true;
  std::int32_t previous = -1;
  for (std::int64_t t = trace.pass_offsets[p]; t < trace.pass_offsets[p + 1]; ++t) {
    pass.tokens.push_back(t);
    const std::int32_t r = request_of_token[t];
    const int domain = r < 0 ? -1 : trace.requests[r].domain;
    if (first) pass.domain = domain;
    if (domain != pass.domain) pass.domain = -1;
    // Several tokens of one request in one pass are a prompt's chunk.
    if (r >= 0 && r == previous) pass.prefill_tokens += pass.prefill_tokens == 0 ? 2 : 1;
    previous = r;
    first = false;
  }
  return pass;
}

}  // namespace ramp
