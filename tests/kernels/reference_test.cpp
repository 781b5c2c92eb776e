// SPDX-License-Identifier: Apache-2.0
// The reference against the layer computed a second time the long way: weights dequantised to plain
// matrices first, rows rounded by a search over the format's values, sums in another order.
#include "kernels/ffn/reference.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/numeric.h"

namespace ramp {
namespace {

constexpr int kGlobalExperts = 5;
const LocalShape kShape{3, 2, 256, 128};  // experts, top_k, d, h

// Small whole numbers and halves, from a counter: nothing is lost to a generator.
struct Digits {
  std::uint64_t state = 0x9e3779b97f4a7c15;
  int next(int n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<int>(state % n);
  }
};

HostWeights some_weights(const LocalShape& s, Digits& digits) {
  const int e = s.experts, d = s.hidden, h = s.intermediate;
  HostWeights w;
  const auto codes = [&](std::vector<std::uint8_t>& to, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const int code = digits.next(0x7f);
      to.push_back(static_cast<std::uint8_t>(code | digits.next(2) << 7));
    }
  };
  const auto scales = [&](std::vector<float>& to, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) to.push_back(0.001f * (1 + digits.next(8)));
  };
  codes(w.w13, std::size_t(e) * 2 * h * d);
  codes(w.w2, std::size_t(e) * d * h);
  scales(w.s13, std::size_t(e) * 2 * (h / 128) * (d / 128));
  scales(w.s2, std::size_t(e) * (d / 128) * (h / 128));
  return w;
}

HostBatch some_batch(const LocalShape& s, int tokens, Digits& digits) {
  HostBatch b;
  b.tokens = tokens;
  for (int i = 0; i < tokens * s.hidden; ++i)
    b.hidden.push_back(to_bf16(static_cast<float>(digits.next(2001) - 1000) / 311.0f));
  for (int i = 0; i < tokens * s.top_k; ++i) {
    b.ids.push_back(digits.next(kGlobalExperts));
    b.gates.push_back(0.125f * (1 + digits.next(8)));
  }
  b.expert_map = {-1, 0, 1, 2, -1};
  return b;
}

// What a value becomes in e4m3, by trying all of them.
double on_the_grid(float x) {
  double best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (int code = 0; code < 0x7f; ++code)
    for (double value : {double(from_e4m3(code)), -double(from_e4m3(code))}) {
      const double here = std::fabs(value - double(x));
      if (here < distance || (here == distance && code % 2 == 0)) best = value, distance = here;
    }
  return best;
}

std::vector<double> rounded(const std::vector<double>& row) {
  std::vector<double> out(row.size());
  for (std::size_t begin = 0; begin < row.size(); begin += 128) {
    float amax = 0;
    for (std::size_t i = begin; i < begin + 128; ++i)
      amax = std::max(amax, static_cast<float>(std::fabs(row[i])));
    const float scale = std::max(amax, 1e-10f) / 448.0f;
    for (std::size_t i = begin; i < begin + 128; ++i)
      out[i] = on_the_grid(static_cast<float>(row[i]) / scale) * scale;
  }
  return out;
}

// A plain matrix of one expert: rows x columns.
std::vector<double> plain(const std::uint8_t* codes, const float* scales, int rows, int columns) {
  std::vector<double> m(std::size_t(rows) * columns);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      m[std::size_t(r) * columns + c] = double(from_e4m3(codes[std::size_t(r) * columns + c])) *
                                        scales[r / 128 * (columns / 128) + c / 128];
  return m;
}

// Last column first, so that the order of the sums differs from the reference's.
std::vector<double> times(const std::vector<double>& matrix, const std::vector<double>& x) {
  std::vector<double> y(matrix.size() / x.size(), 0.0);
  for (std::size_t c = x.size(); c-- > 0;)
    for (std::size_t r = 0; r < y.size(); ++r) y[r] += matrix[r * x.size() + c] * x[c];
  return y;
}

std::vector<double> long_way(const LocalShape& s, const HostWeights& w, const HostBatch& b) {
  const int d = s.hidden, h = s.intermediate;
  std::vector<double> out(std::size_t(b.tokens) * d, 0.0);
  for (int e = 0; e < s.experts; ++e) {
    const auto w13 =
        plain(&w.w13[std::size_t(e) * 2 * h * d], &w.s13[e * 2 * (h / 128) * (d / 128)], 2 * h, d);
    const auto w2 = plain(&w.w2[std::size_t(e) * d * h], &w.s2[e * (d / 128) * (h / 128)], d, h);
    for (int t = 0; t < b.tokens; ++t)
      for (int j = 0; j < s.top_k; ++j) {
        const int id = b.ids[t * s.top_k + j];
        if (id < 0 || id >= int(b.expert_map.size()) || b.expert_map[id] != e) continue;
        std::vector<double> x(d);
        for (int i = 0; i < d; ++i) x[i] = from_bf16(b.hidden[t * d + i]);
        const std::vector<double> both = times(w13, rounded(x));
        std::vector<double> y(h);
        for (int i = 0; i < h; ++i) y[i] = float(both[i] / (1 + std::exp(-both[i])) * both[h + i]);
        const std::vector<double> z = times(w2, rounded(y));
        for (int i = 0; i < d; ++i) out[std::size_t(t) * d + i] += b.gates[t * s.top_k + j] * z[i];
      }
  }
  return out;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    apart += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
  return std::sqrt(apart / size);
}

class Reference : public testing::Test {
 protected:
  Digits digits;
  HostWeights weights = some_weights(kShape, digits);
  HostBatch batch = some_batch(kShape, 4, digits);

  std::vector<double> run() const { return reference_layer(kShape, weights, batch); }
  std::vector<double> row(const std::vector<double>& out, int t) const {
    return {out.begin() + t * kShape.hidden, out.begin() + (t + 1) * kShape.hidden};
  }
  static std::vector<double> zeros() { return std::vector<double>(kShape.hidden, 0.0); }
};

// A rounding of the intermediate may fall the other way, because the sums before it have another
// order: one such flip moves an output by less than 1e-3 of the whole.
TEST_F(Reference, AgreesWithTheLayerComputedTheLongWay) {
  EXPECT_LT(difference(run(), long_way(kShape, weights, batch)), 1e-3);
}

TEST_F(Reference, GateComesBeforeUp) {
  HostWeights swapped = weights;
  const std::size_t half = std::size_t(kShape.intermediate) * kShape.hidden;
  for (int e = 0; e < kShape.experts; ++e)
    std::swap_ranges(swapped.w13.begin() + e * 2 * half, swapped.w13.begin() + e * 2 * half + half,
                     swapped.w13.begin() + e * 2 * half + half);
  EXPECT_GT(difference(reference_layer(kShape, swapped, batch), run()), 0.1);
}

TEST_F(Reference, MinusOneForeignAndUnknownIdsAddNothing) {
  batch.ids = {1, 2, -1, -1, 0, 4, 7, -3};
  const std::vector<double> out = run();
  EXPECT_NE(row(out, 0), zeros());
  EXPECT_EQ(row(out, 1), zeros()) << "-1";
  EXPECT_EQ(row(out, 2), zeros()) << "experts of other GPUs";
  EXPECT_EQ(row(out, 3), zeros()) << "ids out of range";
  HostBatch alone = batch;
  alone.ids = {1, -1, -1, -1, -1, -1, -1, -1};
  HostBatch beside = alone;
  beside.ids[1] = 4;
  EXPECT_EQ(reference_layer(kShape, weights, alone), reference_layer(kShape, weights, beside));
}

TEST_F(Reference, AnIdThatComesTwiceCountsTwice) {
  batch.ids = {2, 2, 2, -1, -1, -1, -1, -1};
  batch.gates.assign(batch.gates.size(), 0.5f);
  const std::vector<double> out = run();
  const std::vector<double> twice = row(out, 0);
  batch.ids[1] = -1;
  const std::vector<double> once = row(run(), 0);
  for (int i = 0; i < kShape.hidden; ++i) ASSERT_DOUBLE_EQ(twice[i], 2 * once[i]) << i;
}

TEST_F(Reference, IsLinearInTheRouterWeightAndNanStaysInItsRow) {
  const std::vector<double> one = run();
  for (float& g : batch.gates) g *= 2;
  const std::vector<double> two = run();
  for (std::size_t i = 0; i < one.size(); ++i) ASSERT_DOUBLE_EQ(two[i], 2 * one[i]);
  batch.ids.assign(batch.ids.size(), 1);
  batch.gates[2] = std::nanf("");
  const std::vector<double> out = run();
  for (int i = 0; i < kShape.hidden; ++i) {
    EXPECT_TRUE(std::isnan(row(out, 1)[i]));
    EXPECT_FALSE(std::isnan(row(out, 0)[i]) || std::isnan(row(out, 2)[i]));
  }
}

TEST_F(Reference, NoTokensIsNoOutput) {
  EXPECT_TRUE(reference_layer(kShape, weights, HostBatch{}).empty());
}

TEST_F(Reference, ARowOfZerosGivesZeros) {
  std::fill(batch.hidden.begin(), batch.hidden.begin() + kShape.hidden, std::uint16_t{0});
  batch.ids[0] = 1;
  EXPECT_EQ(row(run(), 0), zeros());
}

TEST(RelativeError, IsTheFrobeniusNormOfTheDifferenceOverThatOfTheWanted) {
  EXPECT_DOUBLE_EQ(relative_error({3, 4}, {to_bf16(3), to_bf16(4)}), 0);
  EXPECT_DOUBLE_EQ(relative_error({3, 4}, {to_bf16(3), to_bf16(0)}), 0.8);
  EXPECT_DOUBLE_EQ(relative_error({0, 0}, {to_bf16(0), to_bf16(0)}), 0);
}

TEST(RelativeError, WhatIsNoNumberIsInfinitelyWrongUnlessItIsWanted) {
  const double nan = std::nan("");
  const std::uint16_t bf16_nan = to_bf16(std::nanf(""));
  EXPECT_TRUE(std::isinf(relative_error({1, 2}, {to_bf16(1), bf16_nan}))) << "left unwritten";
  EXPECT_TRUE(std::isinf(relative_error({nan, 2}, {to_bf16(1), to_bf16(2)}))) << "NaN swallowed";
  EXPECT_DOUBLE_EQ(relative_error({nan, 2}, {bf16_nan, to_bf16(2)}), 0);
  EXPECT_TRUE(std::isinf(relative_error({1, 2}, {to_bf16(1)}))) << "another size";
  EXPECT_TRUE(std::isinf(relative_error({0}, {to_bf16(1)}))) << "zeros wanted";
}

TEST(Tolerance, GrowsWithTheAdditionsAndShrinksWithTheElementsAndStaysBelowOnePercent) {
  constexpr double kMany = 1 << 24;
  double before = 0;
  for (double adds : {0.0, 1.0, 4.0, 12.0, 32.0, 128.0}) {
    const double now = fast_tolerance(adds, kMany);
    EXPECT_GE(now, before);
    EXPECT_LE(now, 0.01);
    before = now;
  }
  EXPECT_LT(fast_tolerance(1, kMany), fast_tolerance(12, kMany));
  EXPECT_GT(fast_tolerance(1, 128), fast_tolerance(1, kMany)) << "few elements, more luck";
  EXPECT_LE(fast_tolerance(1, 0), 0.01);
}

}  // namespace
}  // namespace ramp
