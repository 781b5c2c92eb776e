// SPDX-License-Identifier: Apache-2.0
// The quantiser, once: FP32 operations that the kernels and the reference share bit for bit.  Per
// token and group of 128 columns: scale = max(amax, 1e-10) / 448, q = e4m3(x / scale), rounded to
// nearest even, saturating.  A group of zeros gives zeros; a NaN stays a NaN and does not touch the
// group's scale.
#pragma once

#include "base/host_device.h"

#if !defined(__CUDACC_RTC__)
#include <cmath>
#include <cstdint>
#include <cstring>
#endif

namespace ramp {

constexpr int kScaleGroup =
    128;  // columns of one activation scale; rows and columns of one weight scale
constexpr float kE4m3Max = 448.0f;

// Scales of rows that stand together can stand column by column, [columns / 128,
// column_pitch(rows)]: those of a tile's rows are then one copy of whole fours (16 bytes), where
// row by row each is a sector of its own.
constexpr int kScalesTogether = 4;
RAMP_HD constexpr int column_pitch(int rows) { return round_up(rows, kScalesTogether); }

RAMP_HD float quantise_divide(float a, float b) {
#if defined(__CUDACC_RTC__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

// a / b from the correctly rounded reciprocal of b: Markstein's correction makes it the quotient to
// the last bit, for three instructions where one b divides many a.
RAMP_HD float quantise_divide(float a, float b, float reciprocal) {
#if defined(__CUDACC_RTC__)
  const float q = __fmul_rn(a, reciprocal);
#else
  const float q = a * reciprocal;
#endif
  return fmaf(fmaf(-q, b, a), reciprocal, q);
}

// fmaxf passes over NaN on both sides.  Infinity stays what it is: the correction would make it
// NaN.
RAMP_HD float group_scale(float amax) {
  const float a = fmaxf(amax, 1e-10f);
  return a <= 3.4028235e38f ? quantise_divide(a, kE4m3Max, 1.0f / kE4m3Max) : a;
}

#if !defined(__CUDACC_RTC__)

// x as e4m3: round to nearest even, saturating to 448; NaN gives 0x7f with x's sign.
inline std::uint8_t to_e4m3(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const std::uint8_t sign = (bits >> 24) & 0x80;
  if (std::isnan(x)) return sign | 0x7f;
  const float a = std::fabs(x);
  if (a >= 464.0f) return sign | 0x7e;  // halfway to the next step above 448 and beyond
  int exponent = 0;
  std::frexp(a, &exponent);  // a = f * 2^exponent, f in [0.5, 1)
  const int unit = (exponent - 1 < -6 ? -6 : exponent - 1) - 3;  // log2 of the spacing around a
  const float steps = std::nearbyint(std::ldexp(a, -unit));      // exact scaling, then ties to even
  const float value = std::ldexp(steps, unit);
  if (value == 0.0f) return sign;
  if (value > kE4m3Max) return sign | 0x7e;
  int e = 0;
  const float f = std::frexp(value, &e);  // f in [0.5, 1)
  if (e - 1 < -6)
    return sign | static_cast<std::uint8_t>(std::ldexp(value, 9));  // subnormal: multiples of 2^-9
  return sign |
         static_cast<std::uint8_t>(((e - 1 + 7) << 3) | static_cast<int>(std::ldexp(f, 4) - 8.0f));
}

inline float from_e4m3(std::uint8_t q) {
  const int e = (q >> 3) & 15, m = q & 7;
  float v = e == 15 && m == 7 ? std::nanf("")
            : e == 0          ? std::ldexp(static_cast<float>(m), -9)
                              : std::ldexp(static_cast<float>(8 + m), e - 10);
  return q & 0x80 ? -v : v;
}

inline float from_bf16(std::uint16_t b) {
  const std::uint32_t bits = static_cast<std::uint32_t>(b) << 16;
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Round to nearest even; NaN stays a (quiet) NaN.
inline std::uint16_t to_bf16(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if (std::isnan(x)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

#endif

}  // namespace ramp
