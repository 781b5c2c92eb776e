// SPDX-License-Identifier: Apache-2.0
// Whole layers against vLLM's Triton MoE: a side-by-side record of other people's layers (rows of
// model, layout, tokens, load, and "us" by name, or layer records with "peers"), joined with our
// own layer records where it does not hold our layer itself.
#pragma once

#include <string>
#include <vector>

#include "lab/paper/request.hpp"

namespace ramp {

struct PeerLayer {
  std::string model, layout, load;
  int tokens = 0;
  double triton_us = 0;  // the faster of vLLM's two ways of scaling activations
  double ours_us = 0;
  bool is_one_run = false;  // both in one run; two H200s differ by 5 %
};

// Of both files' text.  Throws Error for what is no such record; rows without a partner are left
// out.
std::vector<PeerLayer> join_peers(const std::string& peers, const std::string& records);

// Empty where the request names no peers.
std::vector<PeerLayer> peer_layers(const PaperRequest& request);

// Ours over Triton on points of least_tokens and more, geometric mean; unknown without any.
Number over_triton(const std::vector<PeerLayer>& layers, const std::string& model,
                   const std::string& layout, int least_tokens, const PaperRequest& request);

// What a table that shows these says of them, or of how to get some.
std::string peers_note(const std::vector<PeerLayer>& layers);

}  // namespace ramp
