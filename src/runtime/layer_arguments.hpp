// SPDX-License-Identifier: Apache-2.0
// The arguments of a layer's kernels, from its options and a workspace.  Addresses are whatever
// memory the kernels run on: the GPU's, or the host's for the emulated kernels of the tests.
#pragma once

#include "kernels/prepare/state.h"
#include "kernels/prepare/workspace.hpp"
#include "runtime/layer.hpp"

namespace ramp {

struct LayerArguments {
  PrepareArgs prepare;
  FfnArgs ffn;
};

// What all calls share.  expert_map: null where the share is contiguous and begins at first_expert;
// blocks: of `ffn`'s launch; stream_tbps: what a weight stream reaches on this GPU.
LayerArguments shared_arguments(const LayerOptions& options, int first_expert,
                                const int* expert_map, const float* s13, const float* s2,
                                int blocks, double stream_tbps);

// Whether `ffn` finds each row's scales where the row's number says; all strides 0 mean that too.
bool is_row_by_row(const ScaleStrides& strides, int hidden, int slots);

// The kernels' places in a workspace.
void place_in_workspace(LayerArguments& arguments, const Workspace& layout, char* workspace);

// After ids or counts, and `output`, are in: rows of bf16, or of e4m3 with their scales where
// these are given.
void set_rows(LayerArguments& arguments, const void* hidden, const float* scales,
              const ScaleStrides& strides, int slots);

// How a call is done.
struct LayerMode {
  bool phased = false;  // menu of topology F3
  bool ordered = false;
  bool row_a_pair = false;  // PrepareArgs::row_a_pair
  // Of e4m3 rows that come grouped with their scales row by row: `prepare` brings these into the
  // order in which the copy engine takes a tile's at once.
  bool orders_scales = false;
};
// After the call's own addresses are in: where the rows' results go, and who clears these places.
void set_mode(LayerArguments& arguments, const LayerMode& mode);
// Of `combine`, which runs where a token's results stand in slots.
bool runs_combine(const LayerArguments& arguments);
CombineArgs combine_arguments(const LayerArguments& arguments);

}  // namespace ramp
