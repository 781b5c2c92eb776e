// SPDX-License-Identifier: Apache-2.0
// Rows in pieces of 512 columns, which warps take in turns.  Token and piece are counted up instead
// of divided out of an index: the loops that walk like this are bound by instructions.
#pragma once

#include "base/host_device.h"

namespace ramp {

constexpr int kPieceColumns = 512;
constexpr int kPieceHalves = 2;  // a lane has eight columns of each

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
  // This lane's first column of a half; it may lie beyond the row.
  __device__ __forceinline__ int column(int half) const {
    return piece * kPieceColumns + half * (kPieceColumns / kPieceHalves) +
           static_cast<int>(threadIdx.x) % 32 * 8;
  }
};

}  // namespace ramp
