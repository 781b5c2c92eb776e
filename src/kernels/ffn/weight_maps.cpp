// SPDX-License-Identifier: Apache-2.0
#include "kernels/ffn/weight_maps.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "kernels/ffn/config.h"
#include "kernels/prepare/state.h"

namespace ramp {
namespace {

constexpr int kMaxDimension = 1 << 20;

void require_range(const char* field, int value, int low, int high, const char* next) {
  if (value < low || value > high)
    throw Error(field, fmt::format("{}", value), fmt::format("{} to {}", low, high), next);
}

void require_blocks(const char* field, int value) {
  require_range(field, value, kScaleGroup, kMaxDimension, "see `ramp catalog` for shapes that run");
  if (value % kScaleGroup)
    throw Error(field, fmt::format("{}", value),
                fmt::format("a multiple of {}, because weight scales are per {} x {} block; "
                            "nearest: {} and {}",
                            kScaleGroup, kScaleGroup, kScaleGroup,
                            value / kScaleGroup * kScaleGroup, round_up(value, kScaleGroup)),
                "pad the weights and their scales, or take a layout with fewer GPUs");
}

// Half a unit a copy, so that each of two blocks that share a unit brings one of them.
bool brings_halves(const FfnConfig& like) { return like.topology == kF3 && like.split > 1; }

}  // namespace

void require_ffn_shape(const LocalShape& shape) {
  require_range("shape/experts", shape.experts, 1, kMaxLocalExperts,
                "spread the experts over more GPUs");
  require_range("shape/top_k", shape.top_k, 1, kMaxTopK, "see `ramp catalog` for shapes that run");
  require_blocks("shape/hidden", shape.hidden);
  require_blocks("shape/intermediate", shape.intermediate);
}

gpu::TensorMapSpec w13_map_spec(const LocalShape& shape, std::uint64_t w13, const FfnConfig& like) {
  const std::uint64_t d = shape.hidden, h = shape.intermediate;
  gpu::TensorMapSpec spec;
  spec.rank = 4;
  spec.address = w13;
  spec.dims = {d, h, 2, static_cast<std::uint64_t>(shape.experts)};
  spec.strides_bytes = {d, h * d, 2 * h * d};
  spec.box = {kScaleGroup, kScaleGroup, 2, 1};
  if (brings_halves(like))
    spec.box[2] = 1;
  else
    spec.box[1] = static_cast<std::uint32_t>(kScaleGroup / like.split);
  spec.swizzle = gpu::Swizzle::k128B;
  spec.promotion = gpu::L2Promotion::k128B;
  return spec;
}

gpu::TensorMapSpec w2_map_spec(const LocalShape& shape, std::uint64_t w2, const FfnConfig& like) {
  const std::uint64_t d = shape.hidden, h = shape.intermediate;
  gpu::TensorMapSpec spec;
  spec.rank = 3;
  spec.address = w2;
  spec.dims = {h, d, static_cast<std::uint64_t>(shape.experts)};
  spec.strides_bytes = {h, h * d};
  spec.box = {kScaleGroup,
              static_cast<std::uint32_t>(brings_halves(like) ? kFfnUnitCols / 2 : kFfnUnitCols), 1};
  spec.swizzle = gpu::Swizzle::k128B;
  spec.promotion = gpu::L2Promotion::k128B;
  return spec;
}

gpu::TensorMapSpec rows_map_spec(std::uint64_t address, int rows, int columns) {
  gpu::TensorMapSpec spec;
  spec.rank = 2;
  spec.address = address;
  spec.dims = {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows)};
  spec.strides_bytes = {static_cast<std::uint64_t>(columns)};
  spec.box = {kScaleGroup, kPhasedBoxRows};
  spec.swizzle = gpu::Swizzle::k128B;
  spec.promotion = gpu::L2Promotion::k128B;
  return spec;
}

FfnRowMaps make_row_maps(const FfnArgs& a) {
  const auto map = [&](const unsigned char* rows, int columns, const char* name) {
    return gpu::make_tensor_map(
        rows_map_spec(reinterpret_cast<std::uint64_t>(rows), a.most_rows, columns), name);
  };
  const gpu::TensorMap middle = map(a.middle_q, a.intermediate, "rows between the projections");
  return {a.rows_grouped ? map(a.rows_q, a.hidden, "grouped rows") : middle, middle};
}

FfnWeightMaps make_weight_maps(const LocalShape& shape, std::uint64_t w13, std::uint64_t w2,
                               const FfnConfig& like) {
  require_ffn_shape(shape);
  return {gpu::make_tensor_map(w13_map_spec(shape, w13, like), "weights/w13"),
          gpu::make_tensor_map(w2_map_spec(shape, w2, like), "weights/w2")};
}

}  // namespace ramp
