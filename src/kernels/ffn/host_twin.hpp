// SPDX-License-Identifier: Apache-2.0
// `ffn` on the host: the walk of one configuration over its items, with the kernel's numbers (FP32
// sums promoted every 128 of d, e4m3 rows, bf16 additions into the output), for machines without a
// GPU.  The reference is something else (reference.hpp); this is what a layer does where no kernel
// can run.
#pragma once

#include "kernels/ffn/config.h"
#include "kernels/ffn/reference.hpp"
#include "kernels/prepare/twin.hpp"

namespace ramp {

struct HostRun {
  std::vector<std::uint16_t> output;  // [tokens, d] bf16
  int items = 0;                      // (row tile, slice) pairs: T_c of Eq. 1
};

// grouped: of this batch, as group_ids gives it.
HostRun run_on_host(const LocalShape& shape, const HostWeights& weights, const HostBatch& batch,
                    const GroupedRows& grouped, const FfnConfig& config);

}  // namespace ramp
