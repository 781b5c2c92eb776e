// SPDX-License-Identifier: Apache-2.0
// Rows in pieces of 512 columns, which warps take in turns.  Token and piece are counted up instead
// of divided out of an index: the loops that walk like this are bound by instructions.
#pragma once

#include "kernels/numeric.h"

namespace ramp {

constexpr int kPieceColumns = 512;
constexpr int kPieceChunks = 2;  // of eight columns, that a lane has of one group of 128
constexpr int kPieceLanes = 8;   // that share a group
constexpr int kChunkStep = kScaleGroup / kPieceChunks;  // columns from a lane's chunk to its next

struct RowPiece {
  int token, piece;
  int pieces;                    // of a row
  int step_tokens, step_pieces;  // to the warp's next

  __device__ RowPiece(int hidden, int warp, int warps, int first_token = 0)
      : pieces(ceil_div(hidden, kPieceColumns)) {
    token = first_token + warp / pieces, piece = warp % pieces;
    step_tokens = warps / pieces, step_pieces = warps % pieces;
  }
  __device__ __forceinline__ RowPiece next() const {
    RowPiece n = *this;
    n.token += step_tokens, n.piece += step_pieces;
    if (n.piece >= pieces) n.piece -= pieces, ++n.token;
    return n;
  }
  // This lane's group; it may lie beyond the row.
  __device__ __forceinline__ int group() const {
    return piece * (kPieceColumns / kScaleGroup) + static_cast<int>(threadIdx.x) % 32 / kPieceLanes;
  }
  // Of its chunks the first column.
  __device__ __forceinline__ int column() const {
    return group() * kScaleGroup + static_cast<int>(threadIdx.x) % kPieceLanes * 8;
  }
  __device__ __forceinline__ bool inside(int hidden) const {
    return group() * kScaleGroup < hidden;
  }
  // Whether this is the one of the group's lanes that stores its scale.
  __device__ __forceinline__ static bool has_scale() { return threadIdx.x % kPieceLanes == 0; }
};

}  // namespace ramp
