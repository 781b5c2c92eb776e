// SPDX-License-Identifier: Apache-2.0
// How much of its first item a block requests before the routing is known, and how fast.  A request
// for an expert that turns out to have no tokens is bandwidth spent in vain, so the depth follows
// the share of experts that are expected to have some.
#pragma once

#include "kernels/ffn/config.h"

namespace ramp {

// Expected share of experts with a token when `choices` pairs fall on `experts` evenly:
// 1 - (1 - 1 / experts)^choices.
double expected_active_share(int experts, double choices);

// Weight units to request ahead, at most `deepest` (what the menu can).  More than six keep the
// memory busy while the router's words are on their way, and cost more than they bring (H200).
int default_prefill(double active_share, int deepest);

// In topology F3: the same of blocks whose first item is one of the down phase, if no expert has a
// second row tile; 0 where one may have.  rows_of_expert: of the fullest, or the expected mean.
// all_owned: whether every local expert's first tile has blocks from the start.
int down_prefill(int prefill, double rows_of_expert, int rows_of_tile, bool all_owned);

// Nanoseconds between two units of a block, when `blocks` of them together draw what the memory
// gives, in TB/s.
int prefill_pace_ns(int blocks, double stream_tbps);
// The same of the blocks that own an item.
int prefill_pace_ns(const FfnConfig& config, int intermediate, int owned_experts,
                    double stream_tbps);

}  // namespace ramp
