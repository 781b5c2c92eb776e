// SPDX-License-Identifier: Apache-2.0
// The layer in double precision, step by step: the only definition of what is right.
#pragma once

#include <cstdint>
#include <vector>

#include "problem/shape.h"

namespace ramp {

// One GPU's experts, in vLLM's layout; all row-major.
struct HostWeights {
  std::vector<std::uint8_t> w13;  // [experts, 2h, d] e4m3: gate rows, then up rows
  std::vector<float> s13;         // [experts, 2h / 128, d / 128]
  std::vector<std::uint8_t> w2;   // [experts, d, h] e4m3
  std::vector<float> s2;          // [experts, d / 128, h / 128]
};

// Rows of one call.
struct HostBatch {
  int tokens = 0;
  std::vector<std::uint16_t> hidden;  // [tokens, d] bf16
  std::vector<int> ids;               // [tokens, k] global expert ids; -1: no expert
  std::vector<float> gates;           // [tokens, k] router weights
  std::vector<int> expert_map;  // [experts of the model] -> local or -1; ids beyond it are skipped
  // Rows that come quantised; `hidden` is then empty.
  std::vector<std::uint8_t> hidden_q;  // [tokens, d] e4m3
  std::vector<float> hidden_scale;     // [tokens, d / 128]
};

// [tokens, d].  A token without a local expert gets zeros; an id that comes twice counts twice.
std::vector<double> reference_layer(const LocalShape& shape, const HostWeights& weights,
                                    const HostBatch& batch);

// Relative Frobenius error |out - want| / |want|; NaN or an element left unwritten makes it
// infinite.  Where the reference itself is NaN (a NaN router weight) the output must be NaN too.
double relative_error(const std::vector<double>& want, const std::vector<std::uint16_t>& out_bf16);

// What `fast` may err by, from the number formats, never more than 1 %:
// * `adds` bf16 additions into an output element, each off by up to 2^-8 of a partial sum, by 2^-9
//   in the root mean square;
// * products: wgmma keeps about 14 bits past the alignment of a block's largest product, 2^-13;
// * flips: hence an intermediate value falls on the other side of an e4m3 rounding step (2^-4 of
// it)
//   in 1 of 512 cases. `elements` is the number of intermediate values of the call, rows x h:
//   SwiGLU's tails are heavy, so that about one in 16 carries weight, and where that leaves few,
//   their luck (three sigma) counts.
double fast_tolerance(double adds, double elements);

}  // namespace ramp
