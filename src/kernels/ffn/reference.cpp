// SPDX-License-Identifier: Apache-2.0
#include "kernels/ffn/reference.hpp"

#include <cmath>
#include <limits>

#include "kernels/numeric.h"

namespace ramp {

namespace {

// A quantised row: values on the e4m3 grid and a scale a group of 128.
struct QuantisedRow {
  std::vector<double> q;
  std::vector<double> scale;
};

QuantisedRow quantise(const std::vector<float>& x) {
  QuantisedRow row{std::vector<double>(x.size()), std::vector<double>(x.size() / kScaleGroup)};
  for (std::size_t g = 0; g < row.scale.size(); ++g) {
    float amax = 0;
    for (int i = 0; i < kScaleGroup; ++i) amax = std::fmax(amax, std::fabs(x[g * kScaleGroup + i]));
    const float scale = group_scale(amax);
    row.scale[g] = scale;
    for (int i = 0; i < kScaleGroup; ++i) {
      const std::size_t at = g * kScaleGroup + i;
      row.q[at] = from_e4m3(to_e4m3(quantise_divide(x[at], scale)));
    }
  }
  return row;
}

QuantisedRow row_of(const HostBatch& batch, std::size_t t, std::size_t d) {
  if (batch.hidden_q.empty()) {
    std::vector<float> row(d);
    for (std::size_t i = 0; i < d; ++i) row[i] = from_bf16(batch.hidden[t * d + i]);
    return quantise(row);
  }
  const std::size_t groups = d / kScaleGroup;
  QuantisedRow row{std::vector<double>(d), std::vector<double>(groups)};
  for (std::size_t i = 0; i < d; ++i) row.q[i] = from_e4m3(batch.hidden_q[t * d + i]);
  for (std::size_t g = 0; g < groups; ++g) row.scale[g] = batch.hidden_scale[t * groups + g];
  return row;
}

// One output: sum over blocks of 128 of (q . w) * row scale * weight scale.
double dot(const QuantisedRow& x, const std::uint8_t* weights, const float* scales,
           const float* value_of) {
  double sum = 0;
  for (std::size_t g = 0; g < x.scale.size(); ++g) {
    double part = 0;
    for (int i = 0; i < kScaleGroup; ++i)
      part += x.q[g * kScaleGroup + i] * value_of[weights[g * kScaleGroup + i]];
    sum += part * x.scale[g] * scales[g];
  }
  return sum;
}

}  // namespace

std::vector<double> reference_layer(const LocalShape& shape, const HostWeights& weights,
                                    const HostBatch& batch) {
  const std::size_t d = shape.hidden, h = shape.intermediate, k = shape.top_k;
  const std::size_t d_blocks = d / kScaleGroup, h_blocks = h / kScaleGroup;
  float value_of[256];
  for (int q = 0; q < 256; ++q) value_of[q] = from_e4m3(static_cast<std::uint8_t>(q));

  std::vector<double> out(batch.tokens * d, 0.0);
  for (std::size_t t = 0; t < static_cast<std::size_t>(batch.tokens); ++t) {
    const QuantisedRow x = row_of(batch, t, d);
    for (std::size_t j = 0; j < k; ++j) {
      const int id = batch.ids[t * k + j];
      if (id < 0 || id >= static_cast<int>(batch.expert_map.size())) continue;
      const int e = batch.expert_map[id];
      if (e < 0) continue;
      const std::uint8_t* w13 = &weights.w13[e * 2 * h * d];
      const float* s13 = &weights.s13[e * 2 * h_blocks * d_blocks];
      std::vector<float> act(h);
      for (std::size_t i = 0; i < h; ++i) {
        const double gate = dot(x, w13 + i * d, s13 + i / kScaleGroup * d_blocks, value_of);
        const double up =
            dot(x, w13 + (h + i) * d, s13 + (h_blocks + i / kScaleGroup) * d_blocks, value_of);
        act[i] = static_cast<float>(gate / (1.0 + std::exp(-gate)) * up);
      }
      const QuantisedRow y = quantise(act);
      const std::uint8_t* w2 = &weights.w2[e * d * h];
      const float* s2 = &weights.s2[e * d_blocks * h_blocks];
      for (std::size_t i = 0; i < d; ++i)
        out[t * d + i] +=
            batch.gates[t * k + j] * dot(y, w2 + i * h, s2 + i / kScaleGroup * h_blocks, value_of);
    }
  }
  return out;
}

double relative_error(const std::vector<double>& want, const std::vector<std::uint16_t>& out_bf16) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (want.size() != out_bf16.size()) return kWrong;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double got = from_bf16(out_bf16[i]);
    if (std::isnan(want[i]) != std::isnan(got)) return kWrong;
    if (std::isnan(got)) continue;
    difference += (got - want[i]) * (got - want[i]);
    norm += want[i] * want[i];
  }
  if (norm == 0) return difference == 0 ? 0 : kWrong;
  return std::sqrt(difference / norm);
}

double fast_tolerance(double adds, double elements) {
  const double add = std::ldexp(1.0, -9) * std::sqrt(std::fmax(adds, 1.0) / 2.0);
  const double product = std::ldexp(1.0, -13);
  const double flipped = 1.0 / 512, that_count = std::fmax(elements / 16, 1.0);
  const double flip =
      std::ldexp(1.0, -4) * std::sqrt(flipped) * (1 + 3 / std::sqrt(flipped * that_count));
  return std::fmin(0.01, add + product + flip);
}

}  // namespace ramp
