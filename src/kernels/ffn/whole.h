// SPDX-License-Identifier: Apache-2.0
// The whole layer in one launch, for small loads: every block makes the whole choice for itself
// while its first weights are on their way, so that no kernel stands between the router and `ffn`.
// What a block keeps of the routing, and which calls may run so.
#pragma once

#include "kernels/ffn/config.h"
#include "kernels/prepare/state.h"

namespace ramp {

constexpr int kWholePairs = 1024;   // tokens x top_k
constexpr int kWholeExperts = 128;  // local experts
constexpr unsigned short kNobodys = 0xffff;

struct FfnRouting {
  float gate[kWholePairs];
  unsigned short expert[kWholePairs];  // local, or kNobodys
  int count[kWholeExperts];            // n_e
  int first[kWholeExperts + 1];        // claimed row tiles of the experts before; the last: of all
  float cost[kMaxMenu];                // predicted us
  int skipped[3];                      // pairs of other GPUs, -1, out of range
};
constexpr int kFfnRoutingBytes = round_up(static_cast<int>(sizeof(FfnRouting)), 16);

// nullptr, or why an entry can't be in a menu that runs the whole layer.
RAMP_HD constexpr const char* ffn_whole_refusal(const FfnConfig& c) {
  if (c.rows > 32 || (c.split > 1 && c.rows > 24))
    return "rows: 32 and fewer (24 in a cluster), whose BF16 fits the gather warps' registers";
  if (ffn_shared_bytes(c) + kFfnRoutingBytes > kSharedMemoryLimit)
    return "shared memory: the routing takes 7 KB beside the ring; a stage or a staging buffer "
           "less";
  return nullptr;
}

// Whether a call is small enough.
RAMP_HD constexpr bool ffn_whole_takes(int tokens, int top_k, int local_experts) {
  return tokens * top_k <= kWholePairs && local_experts <= kWholeExperts;
}

}  // namespace ramp
