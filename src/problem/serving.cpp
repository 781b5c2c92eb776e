// SPDX-License-Identifier: Apache-2.0
#include "problem/serving.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace ramp {
namespace {

constexpr int kMaxWaiting = 1 << 20;

}  // namespace

Scheduler::Scheduler(int token_budget, int max_active)
    : token_budget_(token_budget), max_active_(max_active) {
  if (token_budget < 1 || token_budget > (1 << 20))
    throw Error("--budget", fmt::format("{}", token_budget), "1 .. 1048576", "for example 2048");
  if (max_active < 0 || max_active > (1 << 20))
    throw Error("--max-active", fmt::format("{}", max_active), "0 (no limit) .. 1048576",
                "for example 256");
}

void Scheduler::add(std::uint64_t request, int prompt, int output) {
  if (waiting() >= kMaxWaiting)
    throw Error("open loop", fmt::format("{} requests wait", kMaxWaiting),
                "a load that the server can keep up with",
                "lower --rate or --speed, shorten --pass-ms, or raise --budget and --max-active");
  if (prompt + output > 0) waiting_.push_back({request, prompt, output});
}

std::vector<BatchPart> Scheduler::next() {
  while (!waiting_.empty() && (max_active_ == 0 || active() < max_active_)) {
    active_.push_back(waiting_.front());
    waiting_.pop_front();
  }
  std::vector<BatchPart> parts;
  int budget = token_budget_;
  // Who decodes is settled before prompts are: a prompt that ends in this pass decodes from the
  // next one on.
  const std::size_t running = active_.size();
  std::vector<bool> decodes(running);
  for (std::size_t i = 0; i < running; ++i) decodes[i] = active_[i].prompt == 0;
  for (std::size_t i = 0; i < running && budget > 0; ++i) {
    if (!decodes[i]) continue;
    --budget;
    parts.push_back({active_[i].name, 1, false, --active_[i].output == 0});
  }
  for (std::size_t i = 0; i < running && budget > 0; ++i) {
    if (decodes[i]) continue;
    const int chunk = std::min(active_[i].prompt, budget);
    active_[i].prompt -= chunk;
    budget -= chunk;
    parts.push_back(
        {active_[i].name, chunk, true, active_[i].prompt == 0 && active_[i].output == 0});
  }
  std::erase_if(active_, [](const Request& r) { return r.prompt == 0 && r.output == 0; });
  return parts;
}

void check_open_loop(const OpenLoopOptions& o) {
  const auto positive = [](const char* flag, double value, const char* example) {
    if (!(value >= 1e-6 && value <= 1e6))
      throw Error(flag, fmt::format("{}", value), "1e-6 .. 1e6", example);
  };
  if (!o.arrivals) positive("--rate", o.rate, "for example --rate 16");
  positive("--speed", o.speed, "1 is the trace's own clock, 2 twice as fast");
  positive("--pass-ms", o.pass_ms, "for example --pass-ms 20");
  if (!(o.token_us >= 0 && o.token_us <= 1e6))
    throw Error("--token-us", fmt::format("{}", o.token_us), "0 .. 1e6", "for example 5");
  if (o.arrivals && o.arrivals->requests.empty())
    throw Error("--arrivals", "no requests", "at least one", "check the file");
}

OpenLoop::OpenLoop(const OpenLoopOptions& options, std::uint64_t seed)
    : options_(options), random_(seed, 18) {
  check_open_loop(options);
  if (!options_.arrivals) advance();
}

void OpenLoop::advance() {
  if (!options_.arrivals) {
    next_s_ += -std::log(random_.uniform()) / options_.rate;
    return;
  }
  const std::vector<Arrival>& requests = options_.arrivals->requests;
  if (++next_ == requests.size()) {
    // Once more from the start, a mean gap later (a second where there is no other).
    const double rate = options_.arrivals->rate();
    lap_s_ += (options_.arrivals->duration_s() + (rate > 0 ? 1 / rate : 1)) / options_.speed;
    next_ = 0;
  }
  next_s_ = lap_s_ + requests[next_].time_s / options_.speed;
}

void OpenLoop::admit(const Scheduler& scheduler, const std::function<void(const Arrival&)>& add) {
  // An idle server waits for the next request: there is no pass without a token.
  if (scheduler.is_idle()) now_s_ = std::max(now_s_, next_s_);
  while (next_s_ <= now_s_) {
    add(options_.arrivals ? options_.arrivals->requests[next_] : Arrival{});
    advance();
  }
}

void OpenLoop::passed(int tokens) {
  now_s_ += options_.pass_ms / 1e3 + tokens * options_.token_us / 1e6;
}

}  // namespace ramp
