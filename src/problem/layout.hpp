// SPDX-License-Identifier: Apache-2.0
// How a layer's experts lie on the GPUs (Section 2.1).  "tpN" cuts every expert's h into N slices,
// so each GPU sees the whole routing; "epN" gives each GPU whole experts, so each GPU sees its own
// load n_g.
//
// Placement: which GPU holds which expert.  Contiguous as in vLLM where E is no multiple of N: the
// first E mod N GPUs hold one expert more.  Any other map comes from a file or is computed from
// loads (placement.hpp), for all layers or one map a layer; hot experts may have replicas on
// several GPUs.  Experts keep their global order inside a GPU, as in vLLM.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "problem/shape.h"

namespace ramp {

struct Layout {
  enum class Kind { kTensor, kExpert };
  Kind kind = Kind::kExpert;
  int gpus = 1;
  // [maps][E]: the GPU of each expert.  No map: contiguous.  One: every layer.  Otherwise one for
  // each row of the trace.
  std::vector<std::vector<int>> placement;
  // [maps][slots]: the expert in each physical slot, in place of `placement` where hot experts have
  // replicas (EPLB's physical_to_logical_map).  GPU g holds slots g s .. g s + s - 1, s = slots /
  // gpus.  Tokens of an expert take its replicas in turn.
  std::vector<std::vector<int>> replicas;
  std::string placement_name;  // "balanced", a file's name; empty for contiguous

  bool is_expert_parallel() const { return kind == Kind::kExpert; }
  bool has_replicas() const { return !replicas.empty(); }
  std::string name() const;  // "ep8", "tp2", "ep8+balanced"
};

// "tp8", "ep16", in either case; "1" GPU alone is tp1 or ep1.
Layout parse_layout(std::string_view text);

// The GPU of each expert of one layer, [E].  Under TP every expert is on every GPU and the map is
// all 0.  Throws Error where experts have replicas: they have several GPUs.
std::vector<int> gpu_of_experts(const Layout& layout, int experts, int layer = 0);

// [slots]: the expert in each physical slot of a layer, of a layout with replicas.
std::span<const int> slots_of(const Layout& layout, int experts, int layer = 0);

// How many experts the contiguous placement gives to `gpu`.
int contiguous_experts(int experts, int gpus, int gpu);

// The experts that `gpu` holds of one layer, ascending; an expert's local index is its place here.
// TP: all of them.
std::vector<int> local_experts(const Layout& layout, int experts, int gpu, int layer = 0);

// vLLM's expert_map: [E], the local index on `gpu`, -1 for experts of other GPUs.
std::vector<int> expert_map(const Layout& layout, int experts, int gpu, int layer = 0);

// What one GPU holds.  Throws Error where the layout can't hold the layer: more GPUs than experts,
// h that the GPUs don't divide, a cut through a 128-wide scale block.
LocalShape local_shape(const MoeShape& shape, const Layout& layout, int gpu, int layer = 0);

// The shape of the GPU with the most experts, over all GPUs and maps: what kernels are asked for.
LocalShape widest_shape(const MoeShape& shape, const Layout& layout);

// The same question for all GPUs and maps at once; also checks the placement against E.
void check_layout(const MoeShape& shape, const Layout& layout);

}  // namespace ramp
