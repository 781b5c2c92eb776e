// SPDX-License-Identifier: Apache-2.0
// Tensor maps: what the bulk tensor copies of sm_90 (TMA) know of a tensor in global memory.
// Elements outside of the tensor arrive as zeros.  The rules are checked here, field by field,
// because the driver says only "invalid value".
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace ramp::gpu {

// Passed to kernels by value as a __grid_constant__ parameter; the layout of its content is the
// driver's.
struct alignas(64) TensorMap {
  std::array<std::uint64_t, 16> opaque;
};
static_assert(sizeof(TensorMap) == 128);

enum class ElementType { kU8, kBf16, kF32 };  // FP8 travels as kU8
enum class Swizzle { kNone, k128B };
enum class L2Promotion { kNone, k128B, k256B };

struct TensorMapSpec {
  ElementType type = ElementType::kU8;
  int rank = 0;                         // 1..5; dimension 0 is the contiguous one
  std::uint64_t address = 0;            // of element 0, a multiple of 16
  std::array<std::uint64_t, 5> dims{};  // elements, 1..2^32
  std::array<std::uint64_t, 4>
      strides_bytes{};                 // of dimensions 1, 2, ...: multiples of 16 below 2^40
  std::array<std::uint32_t, 5> box{};  // elements one copy moves, 1..256 each
  Swizzle swizzle = Swizzle::kNone;    // k128B: a box row is at most 128 bytes
  L2Promotion promotion = L2Promotion::kNone;
};

int element_bytes(ElementType type);

// Throws Error naming the field that is illegal; `name` is the tensor's.  Needs no GPU.
void validate(const TensorMapSpec& spec, const std::string& name);

TensorMap make_tensor_map(const TensorMapSpec& spec, const std::string& name);

}  // namespace ramp::gpu
