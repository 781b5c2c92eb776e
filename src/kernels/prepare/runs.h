// SPDX-License-Identifier: Apache-2.0
// How many blocks count and group the pairs of a load: the same on the host, which launches them,
// and on the device.
#pragma once

#include "kernels/numeric.h"

namespace ramp {

// Up to here a single block is quickest: nobody has to be told anything.
constexpr int kPairsAlone = 1024;
// Up to here the blocks of one cluster share the pairs, and tell each other their counts; all keep
// theirs in registers, and so count and group without reading them twice.
constexpr int kBlocksOfCluster = 8;
constexpr int kPairsOfCluster = kBlocksOfCluster * 4096;

// Beyond, a run of pairs a block, in two launches.  Runs are short, because a block's time grows by
// 0.6 us or more for each 1,024 pairs, and at most so many that 80 blocks of an H200 still
// quantise: at 40 KB in 0.65 us each they keep its memory busy.
constexpr int kPairsOfRun = 1024;
constexpr int kMostRuns = 48;

// Whether a row for each pair pays (PrepareArgs::row_a_pair) where the kernel has two phases and
// this GPU, of so many experts and tokens, gets so many rows: each is read h / 128 times, by the
// copy engine if rows stand together; but they wait for the grouping, a microsecond or two where
// they are about as many as the tokens, and where they are more they take longer to write.
RAMP_HD constexpr bool pays_row_a_pair(int intermediate, int experts, int rows, int tokens) {
  constexpr long long kMuch = 3'250'000;
  const long long h = intermediate;
  if (rows > 2LL * tokens) return h * tokens >= kMuch;
  return h * rows >= kMuch || (h >= 1024 && rows >= 128LL * experts);
}

// Where they do and a cluster selects, the other blocks can hold their rows, quantised, until the
// grouping is made: each its share of the tokens, codes and scales, in so much shared memory.  Of
// more (DeepSeek-V3, 2,048 tokens: 131 KB) the memory is the limit, and a second launch is 6 us
// quicker.
constexpr int kMostHeldBytes = 96 * 1024;
RAMP_HD constexpr int held_tokens(int tokens, int blocks) { return ceil_div(tokens, blocks); }
RAMP_HD constexpr long long held_bytes(int tokens, int hidden, int blocks) {
  return static_cast<long long>(held_tokens(tokens, blocks)) * (hidden + hidden / kScaleGroup * 4);
}

enum class SelectBy { kBlock, kCluster, kRuns };
struct Selecting {
  SelectBy by;
  int blocks;
};

// Of a load of so many pairs; or of so many rows whose counts are ready: nobody has to count those,
// so the second of the two launches is the only one.
RAMP_HD constexpr Selecting selecting_of(int pairs, bool ready_counts) {
  if (!ready_counts && pairs <= kPairsAlone) return {SelectBy::kBlock, 1};
  if (!ready_counts && pairs <= kPairsOfCluster) return {SelectBy::kCluster, kBlocksOfCluster};
  const int runs = pairs > kPairsOfRun ? ceil_div(pairs, kPairsOfRun) : 1;
  return {SelectBy::kRuns, runs < kMostRuns ? runs : kMostRuns};
}

}  // namespace ramp
