// SPDX-License-Identifier: Apache-2.0
#include "runtime/default_menu.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "kernels/ffn/space.hpp"

namespace ramp {
namespace {

constexpr double kReduceTbps = 2.5;  // bulk additions of bf16 rows into the output

// wgmma's share of the matrix rate by its N, measured on an H200 with both operands in shared
// memory.
struct Share {
  double rows, share;
};
constexpr Share kMatrixShare[] = {{8, 0.22}, {16, 0.40}, {32, 0.66}, {64, 1.0}};

double matrix_share(double rows) {
  const Share* after = std::find_if(std::begin(kMatrixShare), std::end(kMatrixShare),
                                    [&](const Share& s) { return s.rows >= rows; });
  if (after == std::end(kMatrixShare)) return 1;
  if (after == std::begin(kMatrixShare)) return after->share * rows / after->rows;
  const Share& before = after[-1];
  return before.share +
         (after->share - before.share) * (rows - before.rows) / (after->rows - before.rows);
}

}  // namespace

Theta planned_theta(const FfnConfig& config, const LocalShape& shape, const GpuSpec& gpu) {
  const double d = shape.hidden, b = config.rows, h = shape.intermediate;
  const double c = std::min(config.cols / 2, shape.intermediate);
  // Of a tile; the mean of an up tile's and a down tile's where they are two.
  const bool phased = config.topology == kF3;
  const double flops =
      phased ? (4 * b * d * c + 2 * b * h * kFfnUnitCols) / 2 : 6 * b * d * c / config.split;
  const double added = phased ? b * kFfnUnitCols / 2 : b * d;
  const double flops_per_us = gpu.matrix_pflops * 1e9 / gpu.sms * matrix_share(b);
  Theta theta;
  theta.fixed = static_cast<float>(gpu.stream_start_us + 2 * gpu.kernel_us);
  theta.wave = static_cast<float>(flops / flops_per_us);
  theta.tile = static_cast<float>(2 * added / (kReduceTbps * 1e6));
  theta.expert =
      static_cast<float>(static_cast<double>(expert_bytes(shape.hidden, shape.intermediate)) /
                         (gpu.stream_tbps * 1e6));
  return theta;
}

std::vector<FfnConfig> default_menu() {
  std::vector<FfnConfig> menu;
  for (int rows : {8, 16, 24, 32, 48, 64}) {
    std::optional<FfnConfig> best;
    for (const FfnConfig& c : ffn_space())
      if (c.topology == kF1 && c.rows == rows && c.cols == 256 && c.split == 1 && c.dynamic == 1 &&
          c.grouped == (rows >= 24) &&
          (!best || std::pair(c.stages, c.staging) > std::pair(best->stages, best->staging)))
        best = c;
    if (best) menu.push_back(*best);
  }
  return menu;
}

LayerOptions with_default_menu(LayerOptions options, const GpuSpec& gpu) {
  options.menu = default_menu();
  options.theta.clear();
  for (const FfnConfig& c : options.menu)
    options.theta.push_back(planned_theta(c, options.shape, gpu));
  return options;
}

}  // namespace ramp
