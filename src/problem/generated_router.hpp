// SPDX-License-Identifier: Apache-2.0
// The router of generated routing: logits of a calibration, experts of a token.  Private to the
// generator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "problem/calibration.hpp"
#include "problem/catalog.hpp"
#include "problem/random.hpp"

namespace ramp {

// Draws experts.  In place of the largest logit + Gumbel it takes the smallest exponential /
// exp(logit): the same order, since -ln of the latter is the former, and one logarithm fewer a
// draw.
class GeneratedRouter {
 public:
  // uniform: every expert alike, whatever the calibration.  seed: of the network, that is the
  // popularities; traffic: of everything else, so that one network can be asked by other requests.
  GeneratedRouter(const Model& model, const Calibration& calibration, int layers, int domains,
                  bool uniform, std::uint64_t seed, std::uint64_t traffic);

  void begin_session(int domain);
  // Lets `passes` passes go by and fixes what all tokens of the next one share.
  void begin_pass(int passes);
  // exp(-s_r R) of a new request, [layer][expert].
  std::vector<float> new_request();
  // The ids of one token: [layer][k], ascending in a row.
  void draw(const std::vector<float>& taste, std::int16_t* out);

 private:
  // Rows of experts are padded to whole vectors everywhere.
  std::size_t size() const { return static_cast<std::size_t>(layers_) * padded_; }
  std::vector<float> popular();
  void drop_groups();
  void take_smallest(int k, std::int16_t* out);

  Model model_;
  Calibration calibration_;
  int layers_;
  bool uniform_;
  Random random_, draws_;
  std::size_t padded_;
  std::vector<float> keys_;
  std::vector<float> popularity_, drift_, inverse_;  // [layer][expert]
  std::vector<std::vector<float>> domain_;
  int session_domain_ = 0;
};

}  // namespace ramp
