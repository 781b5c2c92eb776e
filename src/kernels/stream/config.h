// SPDX-License-Identifier: Apache-2.0
// What the weight stream is told, and its shape: the one that reached the highest bandwidth on an
// H200 (docs/measuring.md).  Shared by host and device.
#pragma once

#include "base/host_device.h"

namespace ramp {

constexpr int kStreamThreads = 128;
constexpr int kStreamStages = 12;
constexpr int kStreamPiece = 16384;  // bytes of one copy: one 128 x 128 block of weights

struct StreamArgs {
  const unsigned char* w13;      // [experts, w13_bytes]
  const unsigned char* w2;       // [experts, w2_bytes]
  unsigned long long w13_bytes;  // of one expert, whole pieces
  unsigned long long w2_bytes;
  const int* active;  // [active_experts] local experts that are read
  int active_experts;
};

}  // namespace ramp
