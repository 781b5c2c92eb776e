// SPDX-License-Identifier: Apache-2.0
// SwiGLU: gate / (1 + e^-gate) * up, with as few of the unit's slow instructions as two values
// allow: one reciprocal serves both.
#pragma once

#include "kernels/hopper/ptx.cuh"

namespace ramp {

// 1 + e^-gate.  From 2^62 on the quotient is nothing beside any other; the bound keeps the product
// of two of them finite.
__device__ __forceinline__ float one_plus_exp_minus(float gate) {
  return 1.0f + exp2_approx(fminf(__fmul_rn(gate, -1.44269504f), 62.0f));
}

__device__ __forceinline__ float swiglu(float gate, float up) {
  return __fmul_rn(__fmul_rn(gate, reciprocal_approx(one_plus_exp_minus(gate))), up);
}

// gate0 and gate1 become the activated values.
__device__ __forceinline__ void swiglu_two(float& gate0, float up0, float& gate1, float up1) {
  const float a = one_plus_exp_minus(gate0), b = one_plus_exp_minus(gate1);
  const float of_both = reciprocal_approx(__fmul_rn(a, b));
  gate0 = __fmul_rn(__fmul_rn(gate0, __fmul_rn(of_both, b)), up0);
  gate1 = __fmul_rn(__fmul_rn(gate1, __fmul_rn(of_both, a)), up1);
}

}  // namespace ramp
