// SPDX-License-Identifier: Apache-2.0
// The traffic of generated routing: requests of one domain, their lengths and tastes, batched as a
// server would (serving.hpp).  Private to the generator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "problem/generated_router.hpp"
#include "problem/random.hpp"
#include "problem/serving.hpp"

namespace ramp {

// What the requests of a session follow: a closed loop of `concurrency`, or an open loop.
struct SessionLoop {
  int concurrency = 0;
  OpenLoopOptions open;
  int max_active = 256;  // open loop
  bool is_open() const { return concurrency == 0; }
};

class GeneratedSession {
 public:
  // next_request: names requests over all sessions; it must outlive this one.
  GeneratedSession(GeneratedRouter& router, Random& random, const std::string& domain,
                   const SessionLoop& loop, std::uint64_t seed, std::uint64_t& next_request);

  // The next pass of the server.
  std::vector<BatchPart> next();
  // Adds prompts of passing requests, until the pass holds max_tokens.
  void add_burst(std::vector<BatchPart>& parts, int max_tokens);
  // The taste of a request of the pass that next() gave last.
  const std::vector<float>& taste_of(std::uint64_t request);

 private:
  int draw_prompt();
  int draw_output();
  void admit();

  GeneratedRouter& router_;
  Random& random_;
  double mean_prompt_, mean_output_;  // tokens
  SessionLoop loop_;
  Scheduler scheduler_;
  std::optional<OpenLoop> open_;
  std::uint64_t& next_request_;
  // Drawn when a request's first token is: many pass between two recorded passes.
  std::unordered_map<std::uint64_t, std::vector<float>> tastes_;
  std::vector<std::uint64_t> finished_;  // in the pass before
};

}  // namespace ramp
