// SPDX-License-Identifier: Apache-2.0
#include "gpu/tensor_map.hpp"

#include "gpu/driver.hpp"

namespace ramp::gpu {
namespace {

int data_type(ElementType type) {
  switch (type) {
    case ElementType::kU8:
      return cu::kTensorU8;
    case ElementType::kBf16:
      return cu::kTensorBf16;
    case ElementType::kF32:
      return cu::kTensorF32;
  }
  return -1;
}

int promotion(L2Promotion p) {
  switch (p) {
    case L2Promotion::kNone:
      return cu::kTensorPromotionNone;
    case L2Promotion::k128B:
      return cu::kTensorPromotion128B;
    case L2Promotion::k256B:
      return cu::kTensorPromotion256B;
  }
  return -1;
}

}  // namespace

int element_bytes(ElementType type) {
  return type == ElementType::kU8 ? 1 : type == ElementType::kBf16 ? 2 : 4;
}

void validate(const TensorMapSpec& spec, const std::string& name) {
  const auto refuse = [&](const std::string& field, std::uint64_t value,
                          const std::string& allowed) {
    throw Error(fmt::format("tensor map of {}, {}", name, field), std::to_string(value), allowed,
                "pad or align the tensor, or take another box");
  };
  if (spec.rank < 1 || spec.rank > 5)
    throw Error(fmt::format("tensor map of {}, rank", name), std::to_string(spec.rank), "1..5", "");
  if (spec.address == 0 || spec.address % 16)
    refuse("address", spec.address, "a multiple of 16, not null");
  for (int i = 0; i < spec.rank; ++i) {
    if (spec.dims[i] < 1 || spec.dims[i] > (1ull << 32))
      refuse(fmt::format("dims[{}]", i), spec.dims[i], "1..2^32");
    if (spec.box[i] < 1 || spec.box[i] > 256)
      refuse(fmt::format("box[{}]", i), spec.box[i], "1..256 elements");
  }
  for (int i = 0; i + 1 < spec.rank; ++i) {
    const std::uint64_t stride = spec.strides_bytes[i];
    if (stride % 16 || stride >= (1ull << 40) || stride == 0)
      refuse(fmt::format("strides_bytes[{}]", i), stride, "a multiple of 16 bytes, 16..2^40-16");
  }
  const std::uint64_t row = std::uint64_t{spec.box[0]} * element_bytes(spec.type);
  if (row % 16) refuse("box[0] in bytes", row, "a multiple of 16");
  if (spec.swizzle == Swizzle::k128B && row > 128)
    refuse("box[0] in bytes", row, "at most 128 with a swizzle of 128");
}

TensorMap make_tensor_map(const TensorMapSpec& spec, const std::string& name) {
  validate(spec, name);
  TensorMap map{};
  const std::array<std::uint32_t, 5> element_strides{1, 1, 1, 1, 1};
  constexpr int kNoInterleave = 0, kZeroFill = 0;
  const int swizzle =
      spec.swizzle == Swizzle::k128B ? cu::kTensorSwizzle128B : cu::kTensorSwizzleNone;
  check(driver().cuTensorMapEncodeTiled(
            &map, data_type(spec.type), static_cast<std::uint32_t>(spec.rank),
            reinterpret_cast<void*>(spec.address), spec.dims.data(), spec.strides_bytes.data(),
            spec.box.data(), element_strides.data(), kNoInterleave, swizzle,
            promotion(spec.promotion), kZeroFill),
        "encoding the tensor map of " + name);
  return map;
}

}  // namespace ramp::gpu
