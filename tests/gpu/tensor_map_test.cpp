// SPDX-License-Identifier: Apache-2.0
// The rules of tensor maps: every illegal field is named, with its value and what is allowed.
#include "gpu/tensor_map.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.hpp"

namespace ramp::gpu {
namespace {

// Weights w13 [E, 2h, d] in FP8, seen as {d, h, 2, E}: the gate and up rows of one slice are one
// box.
TensorMapSpec weights() {
  TensorMapSpec spec;
  spec.rank = 4;
  spec.address = 0x7f0000000000;
  spec.dims = {2048, 1408, 2, 64};
  spec.strides_bytes = {2048, 2048 * 1408, 2048 * 1408 * 2};
  spec.box = {128, 64, 2, 1};
  spec.swizzle = Swizzle::k128B;
  spec.promotion = L2Promotion::k256B;
  return spec;
}

std::string refusal(const std::function<void(TensorMapSpec&)>& change) {
  TensorMapSpec spec = weights();
  change(spec);
  try {
    validate(spec, "w13");
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(TensorMap, TakesTheWeightsOfALayer) { EXPECT_NO_THROW(validate(weights(), "w13")); }

TEST(TensorMap, NamesTheFieldThatIsIllegal) {
  struct Case {
    const char* field;
    const char* value;
    std::function<void(TensorMapSpec&)> change;
  };
  const Case cases[] = {
      {"rank", "got 0", [](auto& s) { s.rank = 0; }},
      {"rank", "got 6", [](auto& s) { s.rank = 6; }},
      {"address", "got 0", [](auto& s) { s.address = 0; }},
      {"address", "got 8", [](auto& s) { s.address = 8; }},
      {"dims[1]", "got 0", [](auto& s) { s.dims[1] = 0; }},
      {"dims[0]", "got 4294967297", [](auto& s) { s.dims[0] = (1ull << 32) + 1; }},
      {"strides_bytes[0]", "got 2040", [](auto& s) { s.strides_bytes[0] = 2040; }},
      {"strides_bytes[2]", "got 0", [](auto& s) { s.strides_bytes[2] = 0; }},
      {"strides_bytes[1]", "got 1099511627776", [](auto& s) { s.strides_bytes[1] = 1ull << 40; }},
      {"box[1]", "got 257", [](auto& s) { s.box[1] = 257; }},
      {"box[3]", "got 0", [](auto& s) { s.box[3] = 0; }},
      {"box[0] in bytes", "got 120", [](auto& s) { s.box[0] = 120; }},
      {"box[0] in bytes", "got 256", [](auto& s) { s.box[0] = 256; }},
  };
  for (const Case& c : cases) {
    const std::string text = refusal(c.change);
    EXPECT_NE(text.find(std::string("w13, ") + c.field + ": " + c.value), std::string::npos)
        << text;
    EXPECT_NE(text.find("allowed: "), std::string::npos) << text;
  }
}

TEST(TensorMap, LooksOnlyAtTheDimensionsOfItsRank) {
  TensorMapSpec spec = weights();
  spec.rank = 2;
  spec.dims[3] = 0;
  spec.strides_bytes[1] = 3;
  EXPECT_NO_THROW(validate(spec, "rows"));
}

TEST(TensorMap, LimitsBoxRowsInBytesAndOnlyUnderASwizzle) {
  TensorMapSpec spec = weights();
  spec.type = ElementType::kBf16;  // 128 elements are 256 bytes
  EXPECT_THROW(validate(spec, "x"), Error);
  spec.box[0] = 64;
  EXPECT_NO_THROW(validate(spec, "x"));
  spec.type = ElementType::kF32;
  spec.box[0] = 256;
  spec.swizzle = Swizzle::kNone;
  EXPECT_NO_THROW(validate(spec, "scales"));
}

TEST(TensorMap, IsWhatTheHardwareReads) {
  EXPECT_EQ(sizeof(TensorMap), 128u);
  EXPECT_GE(alignof(TensorMap), 64u);
  EXPECT_EQ(element_bytes(ElementType::kU8), 1);
  EXPECT_EQ(element_bytes(ElementType::kBf16), 2);
  EXPECT_EQ(element_bytes(ElementType::kF32), 4);
}

}  // namespace
}  // namespace ramp::gpu
