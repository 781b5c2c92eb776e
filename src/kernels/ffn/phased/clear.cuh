// SPDX-License-Identifier: Apache-2.0
// The output cleared by `ffn` itself, along its up items: the copy engine writes zeros out of
// shared memory while the tensor cores work.  In `prepare` it is as much as the rows cost to read
// and to write, and everybody waits for it.
//
// Blocks claim pieces, so whoever runs clears all of them, however few SMs another kernel leaves.
// A down item waits until all are cleared.
#pragma once

#include "kernels/ffn/phased/shared.cuh"

namespace ramp {

// By one thread of a block; the others have none.
class OutputClearing {
 public:
  __device__ __forceinline__ OutputClearing(const FfnArgs& a, u32 zeros, bool any)
      : a_(a), zeros_(zeros), mine_(any && a.clear_bytes > 0 ? 0 : kClear) {
    if (mine_ == 0) claim();
  }

  // Asks for a piece's zeros, or, if none is left, says that this block's are there.  The claim
  // that it leaves is an answer to wait for the next time.
  __device__ __forceinline__ void step() {
    if (mine_ < 0) return;
    if (claimed_ < pieces()) {
      const long long begin = static_cast<long long>(claimed_) * kClearPieceBytes;
      const int bytes = static_cast<int>(
          min(static_cast<long long>(kClearPieceBytes), a_.clear_bytes - begin));
      char* to = reinterpret_cast<char*>(a_.output) + begin;
#pragma unroll 1
      for (int at = 0; at < bytes; at += kZeroBytes)
        bulk_store(to + at, zeros_, min(kZeroBytes, bytes - at));
      bulk_commit();
      ++mine_;
      claim();
    } else {
      bulk_wait();
      add_release(&a_.state->cleared, mine_);
      mine_ = kSaid;
    }
  }
  __device__ __forceinline__ void finish() {
    while (mine_ >= 0) step();
  }
  // Until the whole output is clear; everybody's pieces are on their way.
  __device__ __forceinline__ void wait_for_all() {
    finish();
    if (mine_ == kSaid) wait_at_least(&a_.state->cleared, pieces());
    mine_ = kClear;
  }

 private:
  enum { kSaid = -1, kClear = -2 };
  __device__ __forceinline__ int pieces() const {
    return static_cast<int>((a_.clear_bytes + kClearPieceBytes - 1) / kClearPieceBytes);
  }
  __device__ __forceinline__ void claim() { claimed_ = atomicAdd(&a_.state->clear_claim, 1); }

  const FfnArgs& a_;
  const u32 zeros_;
  int mine_;  // pieces that this block asked for, or how far the whole is
  int claimed_ = 0;
};

}  // namespace ramp
