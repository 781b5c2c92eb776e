// SPDX-License-Identifier: Apache-2.0
// Where wgmma finds an operand in shared memory: K-major rows of 128 bytes with the 128-byte
// swizzle.
#pragma once

#include "base/host_device.h"

namespace ramp {

// Rows of 128 bytes in groups of 8 (1,024 bytes); the start must lie on a multiple of 1,024 bytes.
// Adding kDescriptorStepK moves 32 elements along K.
RAMP_HD unsigned long long matrix_descriptor(unsigned smem) {
  return (1ull << 62) | (static_cast<unsigned long long>(1024 >> 4) << 32) | (1ull << 16) |
         ((smem & 0x3FFFF) >> 4);
}
constexpr int kDescriptorStepK = 32 >> 4;

}  // namespace ramp
