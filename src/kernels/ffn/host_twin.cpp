// SPDX-License-Identifier: Apache-2.0
#include "kernels/ffn/host_twin.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace ramp {

namespace {

// e4m3 rows of a tile, their codes expanded, with a scale a group of 128.
struct QuantisedTile {
  std::vector<float> value;  // [rows, columns]
  std::vector<float> scale;  // [rows, columns / 128]
};

const std::array<float, 256>& values_of_codes() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> t{};
    for (int q = 0; q < 256; ++q) t[q] = from_e4m3(static_cast<std::uint8_t>(q));
    return t;
  }();
  return table;
}

void quantise_group(const float* x, float* value, float* scale) {
  float amax = 0;
  for (int i = 0; i < kScaleGroup; ++i) amax = std::fmax(amax, std::fabs(x[i]));
  *scale = group_scale(amax);
  for (int i = 0; i < kScaleGroup; ++i)
    value[i] = values_of_codes()[to_e4m3(quantise_divide(x[i], *scale))];
}

// One weight row of 128 columns times every row of the tile, promoted into sum[row * stride].
void multiply(const std::uint8_t* weights, float weight_scale, const QuantisedTile& tile, int rows,
              int columns, int block, float* sum, int stride) {
  float w[kScaleGroup];
  for (int i = 0; i < kScaleGroup; ++i) w[i] = values_of_codes()[weights[i]];
  for (int r = 0; r < rows; ++r) {
    const float* x = &tile.value[static_cast<std::size_t>(r) * columns + block * kScaleGroup];
    float part = 0;
    for (int i = 0; i < kScaleGroup; ++i) part += w[i] * x[i];
    const float scale =
        weight_scale * tile.scale[static_cast<std::size_t>(r) * (columns / kScaleGroup) + block];
    sum[static_cast<std::size_t>(r) * stride] =
        std::fmaf(part, scale, sum[static_cast<std::size_t>(r) * stride]);
  }
}

}  // namespace

HostRun run_on_host(const LocalShape& shape, const HostWeights& weights, const HostBatch& batch,
                    const GroupedRows& grouped, const FfnConfig& config) {
  const int d = shape.hidden, h = shape.intermediate;
  const int d_blocks = d / kScaleGroup, h_blocks = h / kScaleGroup;
  // F3 multiplies by the down weights of all of h at once.
  const bool phased = config.topology == kF3;
  const int groups = phased ? h_blocks : ffn_groups(config),
            slices = phased ? 1 : ffn_slices(config, h);
  const Grid grid = ffn_grid(config, d, h, 1);
  HostRun run;
  run.output.assign(static_cast<std::size_t>(batch.tokens) * d, 0);

  for (int e = 0; e < shape.experts; ++e) {
    const std::size_t expert = e;
    const std::uint8_t* w13 = weights.w13.data() + expert * 2 * h * d;
    const float* s13 = weights.s13.data() + expert * 2 * h_blocks * d_blocks;
    const std::uint8_t* w2 = weights.w2.data() + expert * d * h;
    const float* s2 = weights.s2.data() + expert * d_blocks * h_blocks;

    for (int first = 0; first < grouped.counts[e]; first += config.rows) {
      const int rows = std::min(config.rows, grouped.counts[e] - first);
      const Row* row = &grouped.rows[static_cast<std::size_t>(grouped.row_base[e] + first)];
      QuantisedTile x{std::vector<float>(static_cast<std::size_t>(rows) * d),
                      std::vector<float>(static_cast<std::size_t>(rows) * d_blocks)};
      for (int r = 0; r < rows; ++r)
        for (int b = 0; b < d_blocks; ++b) {
          float group[kScaleGroup];
          for (int i = 0; i < kScaleGroup; ++i)
            group[i] = from_bf16(
                batch.hidden[static_cast<std::size_t>(row[r].token) * d + b * kScaleGroup + i]);
          quantise_group(group, &x.value[static_cast<std::size_t>(r) * d + b * kScaleGroup],
                         &x.scale[static_cast<std::size_t>(r) * d_blocks + b]);
        }

      for (int p = 0; p < grid.phases; ++p) run.items += grid.phase[p].col_tiles;
      for (int slice = 0; slice < slices; ++slice) {
        const int begin = slice * groups, mine = std::min(groups, h_blocks - begin),
                  width = mine * kScaleGroup;
        QuantisedTile y{std::vector<float>(static_cast<std::size_t>(rows) * width),
                        std::vector<float>(static_cast<std::size_t>(rows) * mine)};
        std::vector<float> gate(static_cast<std::size_t>(rows) * width), up(gate.size());
        for (int c = 0; c < width; ++c)
          for (int b = 0; b < d_blocks; ++b) {
            const std::size_t at = static_cast<std::size_t>(begin * kScaleGroup + c);
            const int block = begin + c / kScaleGroup;
            multiply(w13 + at * d + b * kScaleGroup, s13[block * d_blocks + b], x, rows, d, b,
                     &gate[c], width);
            multiply(w13 + (h + at) * d + b * kScaleGroup, s13[(h_blocks + block) * d_blocks + b],
                     x, rows, d, b, &up[c], width);
          }
        for (int r = 0; r < rows; ++r)
          for (int g = 0; g < mine; ++g) {
            const std::size_t at = static_cast<std::size_t>(r) * width + g * kScaleGroup;
            float act[kScaleGroup];
            for (int i = 0; i < kScaleGroup; ++i)
              act[i] = gate[at + i] / (1.0f + std::exp(-gate[at + i])) * up[at + i];
            float& scale = y.scale[static_cast<std::size_t>(r) * mine + g];
            quantise_group(act, &y.value[at], &scale);
            scale *= row[r].gate;  // the router's weight, folded in after quantising
          }
        std::vector<float> out(static_cast<std::size_t>(rows));
        for (int c = 0; c < d; ++c) {
          std::fill(out.begin(), out.end(), 0.0f);
          for (int g = 0; g < mine; ++g)
            multiply(w2 + static_cast<std::size_t>(c) * h + (begin + g) * kScaleGroup,
                     s2[c / kScaleGroup * h_blocks + begin + g], y, rows, width, g, out.data(), 1);
          for (int r = 0; r < rows; ++r) {
            std::uint16_t& to = run.output[static_cast<std::size_t>(row[r].token) * d + c];
            to = to_bf16(from_bf16(to) + from_bf16(to_bf16(out[r])));
          }
        }
      }
    }
  }
  return run;
}

}  // namespace ramp
