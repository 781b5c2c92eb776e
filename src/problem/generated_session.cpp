// SPDX-License-Identifier: Apache-2.0
#include "problem/generated_session.hpp"

#include <algorithm>
#include <cmath>

namespace ramp {
namespace {

// Mean tokens of prompt and answer: chat from ShareGPT's first turns, the others from the
// benchmarks' texts.
struct Lengths {
  const char* domain;
  double prompt, output;
};
constexpr Lengths kLengths[] = {
    {"chat", 136, 470}, {"math", 100, 300}, {"code", 150, 400}, {"knowledge", 130, 300}};
constexpr double kPromptSpread = 0.6;  // of the logarithm
constexpr int kShortestPrompt = 8;
constexpr int kChunk = 2048;  // prompt tokens that an ordinary pass may carry

Lengths lengths_of(const std::string& domain) {
  for (const Lengths& lengths : kLengths)
    if (domain == lengths.domain) return lengths;
  return {"", 130, 350};
}

constexpr int kWarmUpPasses = 1000;  // of an open loop, until as many leave as come

}  // namespace

GeneratedSession::GeneratedSession(GeneratedRouter& router, Random& random,
                                   const std::string& domain, const SessionLoop& loop,
                                   std::uint64_t seed, std::uint64_t& next_request)
    : router_(router),
      random_(random),
      mean_prompt_(lengths_of(domain).prompt),
      mean_output_(lengths_of(domain).output),
      loop_(loop),
      // A closed loop always has room for every active request and some prompt beside.
      scheduler_(std::max(kChunk, loop.concurrency + kChunk / 8),
                 loop.is_open() ? loop.max_active : 0),
      next_request_(next_request) {
  if (loop.is_open()) {
    open_.emplace(loop.open, seed);
    for (int p = 0; p < kWarmUpPasses; ++p) next();
    return;
  }
  // In the middle of their answers: a loop that has run for long.
  for (int i = 0; i < loop.concurrency; ++i)
    scheduler_.add(next_request_++, 0,
                   std::max(1, static_cast<int>(draw_output() * random_.uniform())));
}

int GeneratedSession::draw_prompt() {
  return std::max(kShortestPrompt, static_cast<int>(std::exp(std::log(mean_prompt_) +
                                                             kPromptSpread * random_.normal())));
}

int GeneratedSession::draw_output() {
  return std::max(1, static_cast<int>(random_.gamma2(mean_output_)));
}

void GeneratedSession::admit() {
  if (!open_) {
    while (scheduler_.active() + scheduler_.waiting() < loop_.concurrency)
      scheduler_.add(next_request_++, draw_prompt(), draw_output());
    return;
  }
  open_->admit(scheduler_, [this](const Arrival& arrival) {
    // Poisson arrivals take the domain's lengths.  The prompt's last pass gives the first token.
    const bool has_lengths = arrival.prompt + arrival.output > 0;
    const int prompt = has_lengths ? std::max(1, arrival.prompt) : draw_prompt();
    const int output = has_lengths ? std::max(0, arrival.output - 1) : draw_output();
    scheduler_.add(next_request_++, prompt, output);
  });
}

std::vector<BatchPart> GeneratedSession::next() {
  for (const std::uint64_t request : finished_) tastes_.erase(request);
  finished_.clear();
  admit();
  std::vector<BatchPart> parts = scheduler_.next();
  int tokens = 0;
  for (const BatchPart& part : parts) {
    tokens += part.tokens;
    if (part.is_last) finished_.push_back(part.request);
  }
  if (open_) open_->passed(tokens);
  return parts;
}

void GeneratedSession::add_burst(std::vector<BatchPart>& parts, int max_tokens) {
  int tokens = 0;
  for (const BatchPart& part : parts) tokens += part.tokens;
  while (tokens < max_tokens) {
    const int prompt = std::min(draw_prompt(), max_tokens - tokens);
    finished_.push_back(next_request_);
    parts.push_back({next_request_++, prompt, true, true});
    tokens += prompt;
  }
}

const std::vector<float>& GeneratedSession::taste_of(std::uint64_t request) {
  const auto [found, is_new] = tastes_.try_emplace(request);
  if (is_new) found->second = router_.new_request();
  return found->second;
}

}  // namespace ramp
