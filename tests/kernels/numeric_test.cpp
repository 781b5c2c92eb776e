// SPDX-License-Identifier: Apache-2.0
// The host's FP8 and BF16, exhaustively and against arithmetic written another way: the reference
// stands on them.
#include "kernels/numeric.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace ramp {
namespace {

// All finite non-negative values of e4m3, ascending; the index is the code.
std::vector<double> magnitudes() {
  std::vector<double> values;
  for (int code = 0; code < 0x7f; ++code) {
    const int exponent = code / 8, fraction = code % 8;
    values.push_back(exponent == 0 ? fraction / 512.0
                                   : (1 + fraction / 8.0) * std::pow(2.0, exponent - 7));
  }
  return values;
}

// The nearest code by search; of two equally near ones the even, as IEEE 754 rounds.
int nearest_code(double magnitude, const std::vector<double>& values) {
  int best = 0;
  for (int code = 1; code < static_cast<int>(values.size()); ++code) {
    const double here = std::fabs(values[code] - magnitude);
    const double there = std::fabs(values[best] - magnitude);
    if (here < there || (here == there && code % 2 == 0)) best = code;
  }
  return best;
}

TEST(E4m3, EveryCodeHasTheValueOfTheFormat) {
  const std::vector<double> values = magnitudes();
  ASSERT_EQ(values.back(), 448.0);
  for (int code = 0; code < 0x7f; ++code) {
    EXPECT_EQ(from_e4m3(code), values[code]) << code;
    EXPECT_EQ(from_e4m3(code | 0x80), -values[code]) << code;
  }
  EXPECT_TRUE(std::isnan(from_e4m3(0x7f)));
  EXPECT_TRUE(std::isnan(from_e4m3(0xff)));
}

TEST(E4m3, EveryCodeComesBack) {
  for (int code = 0; code < 256; ++code)
    EXPECT_EQ(to_e4m3(from_e4m3(code)), code) << "code " << code << " is " << from_e4m3(code);
}

TEST(E4m3, HalfwayGoesToTheEvenCodeAndItsNeighboursToTheNearer) {
  const std::vector<double> values = magnitudes();
  for (int code = 0; code + 1 < static_cast<int>(values.size()); ++code) {
    const float middle = static_cast<float>((values[code] + values[code + 1]) / 2);
    const int even = code % 2 ? code + 1 : code;
    for (float sign : {1.0f, -1.0f}) {
      const int bit = sign < 0 ? 0x80 : 0;
      EXPECT_EQ(to_e4m3(sign * middle), even | bit) << code;
      EXPECT_EQ(to_e4m3(sign * std::nextafter(middle, 0.0f)), code | bit) << code;
      EXPECT_EQ(to_e4m3(sign * std::nextafter(middle, 1e9f)), (code + 1) | bit) << code;
    }
  }
}

TEST(E4m3, RoundsLikeASearchForTheNearest) {
  const std::vector<double> values = magnitudes();
  for (int i = 0; i < 20000; ++i) {  // steps of 1/64 octave with an odd phase, over the whole range
    const float x = static_cast<float>(std::exp2(-11 + i * (20.0 / 20000)) * 1.0000371);
    if (x >= 448) break;
    ASSERT_EQ(to_e4m3(x), nearest_code(x, values)) << x;
  }
}

TEST(E4m3, SaturatesAndKeepsNanAndTheSignOfZero) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (float x : {448.0f, 449.0f, 463.9f, 464.0f, 480.0f, 1e30f, infinity}) {
    EXPECT_EQ(to_e4m3(x), 0x7e) << x;
    EXPECT_EQ(to_e4m3(-x), 0xfe) << x;
  }
  EXPECT_EQ(to_e4m3(std::nanf("")) & 0x7f, 0x7f);
  EXPECT_EQ(to_e4m3(-std::nanf("")) & 0x7f, 0x7f);
  EXPECT_EQ(to_e4m3(0.0f), 0x00);
  EXPECT_EQ(to_e4m3(-0.0f), 0x80);
  EXPECT_EQ(to_e4m3(std::numeric_limits<float>::denorm_min()), 0x00);
}

TEST(Bf16, EveryCodeComesBack) {
  for (int code = 0; code < 65536; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    const float x = from_bf16(bits);
    if (std::isnan(x))
      EXPECT_TRUE(std::isnan(from_bf16(to_bf16(x)))) << code;
    else
      ASSERT_EQ(to_bf16(x), bits) << code;
  }
}

TEST(Bf16, HalfwayGoesToTheEvenCode) {
  for (int code = 0; code < 0x7f7f; ++code) {  // finite, positive, and so is the next
    const auto low = static_cast<std::uint16_t>(code), high = static_cast<std::uint16_t>(code + 1);
    const float middle = from_bf16(low) / 2 + from_bf16(high) / 2;
    if (middle == from_bf16(low) || middle == from_bf16(high)) continue;  // the smallest subnormals
    ASSERT_EQ(to_bf16(middle), code % 2 ? high : low) << code;
    ASSERT_EQ(to_bf16(std::nextafter(middle, 0.0f)), low) << code;
    ASSERT_EQ(to_bf16(std::nextafter(middle, HUGE_VALF)), high) << code;
  }
}

TEST(Bf16, RoundsUpToInfinityAndKeepsNanApartFromIt) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), to_bf16(infinity));
  EXPECT_EQ(from_bf16(to_bf16(-infinity)), -infinity);
  std::uint32_t bits = 0x7f800001;  // a NaN whose fraction lies in the half that is cut off
  float x;
  std::memcpy(&x, &bits, sizeof x);
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(x))));
}

TEST(GroupScale, AZeroGroupHasAScaleAndTheLargestValueTheLargestCode) {
  EXPECT_GT(group_scale(0), 0);
  EXPECT_EQ(to_e4m3(quantise_divide(0.0f, group_scale(0))), 0);
  for (float amax : {1e-12f, 3.7e-6f, 0.1f, 1.0f, 3.0f, 77.7f, 1e20f}) {
    const int code = to_e4m3(quantise_divide(amax, group_scale(amax)));
    EXPECT_EQ(code, amax < 1e-10f ? to_e4m3(amax / group_scale(0)) : 0x7e) << amax;
  }
}

TEST(GroupScale, PassesOverNan) {
  EXPECT_EQ(group_scale(std::fmax(2.0f, std::nanf(""))), group_scale(2.0f));
  EXPECT_EQ(group_scale(std::nanf("")), group_scale(0)) << "a group of NaN alone";
}

TEST(Quantiser, DividingByTheReciprocalGivesTheQuotientToTheLastBit) {
  // What the kernels do; the reference divides.
  std::uint32_t x = 12345;
  const auto next = [&x] { return x = x * 1664525 + 1013904223; };
  for (int i = 0; i < 2'000'000; ++i) {
    const float amax = std::ldexp(1.0f + static_cast<float>(next() >> 9) * 0x1p-23f,
                                  static_cast<int>(next() >> 27) - 16);
    const float scale = group_scale(amax);
    const float value = amax * (static_cast<float>(next() >> 8) * 0x1p-24f);
    ASSERT_EQ(quantise_divide(value, scale, 1.0f / scale), quantise_divide(value, scale))
        << value << " / " << scale;
  }
}

}  // namespace
}  // namespace ramp
