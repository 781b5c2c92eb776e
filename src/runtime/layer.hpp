// SPDX-License-Identifier: Apache-2.0
// One MoE layer's experts on one GPU: from router ids and BF16 rows to BF16 output in two launches,
// `prepare` (which chooses the menu's entry, Algorithm 1; of large loads in two of its own) and
// `ffn` (which runs it), and in `ordered` mode a third, `combine`, which adds up.
//
// forward allocates nothing, waits for nothing and can be captured into a CUDA graph whose replays
// route differently.  Everything a call leaves behind lies in the caller's workspace, so calls with
// different workspaces may run at the same time; a workspace belongs to one stream at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "choice/cost_model.h"
#include "gpu/device.hpp"
#include "kernels/ffn/weight_maps.hpp"
#include "kernels/prepare/state.h"
#include "kernels/prepare/workspace.hpp"
#include "problem/shape.h"
#include "runtime/kernels.hpp"

namespace ramp {

constexpr int kMaxModelExperts = 1 << 16;  // E; an expert map is this long at most

struct LayerOptions {
  LocalShape shape;             // what this GPU holds
  int experts = 0;              // E of the model: ids that arrive are 0 .. experts - 1, or -1
  int first_expert = 0;         // of the contiguous share, where expert_map is empty
  std::vector<int> expert_map;  // [experts] -> local expert or -1; empty: contiguous
  std::vector<FfnConfig> menu;
  std::vector<Theta> theta;  // one an entry (Eq. 3)
  // A token's results are added in FP32 in the order of its ids: the same bits in every run,
  // whichever entry runs, wherever the token stands and however many others there are.  For menus
  // of topology F3, which keeps one order of sums in every entry.
  bool ordered = false;
  // Whether `prepare` writes a row for each pair, in the order of the experts, instead of one for
  // each token (menus of topology F3), and of rows that come grouped brings their scales into the
  // order that goes with it; empty: where it pays (pays_row_a_pair).  Not in the results.
  std::optional<bool> row_a_pair;
};

// Device addresses of one GPU's weights, read in place; they must stay valid as long as the layer.
struct DeviceWeights {
  gpu::CUdeviceptr w13 = 0;  // e4m3 [experts, 2h, d], gate rows then up rows; 16-byte aligned
  gpu::CUdeviceptr s13 = 0;  // float [experts, 2h / 128, d / 128]; 4-byte aligned
  gpu::CUdeviceptr w2 = 0;   // e4m3 [experts, d, h]; 16-byte aligned
  gpu::CUdeviceptr s2 = 0;   // float [experts, d / 128, h / 128]; 4-byte aligned
};

// Device addresses and sizes of one call.
struct LayerCall {
  int tokens = 0;               // 0: nothing is launched, the output is untouched
  gpu::CUdeviceptr hidden = 0;  // bf16 [tokens, d]; 16-byte aligned
  gpu::CUdeviceptr ids = 0;     // int32 [tokens, top_k], ids of the model
  gpu::CUdeviceptr gates = 0;   // float [tokens, top_k]; 0: every router weight is 1
  // Instead of ids: int32 [local experts], rows that stand grouped by expert already.  `hidden`,
  // `gates` [tokens] and `output` are then by row, and `tokens` is at least their sum.
  gpu::CUdeviceptr ready_counts = 0;
  // With ready counts, where each expert has places of its own: expert e's rows are the first ones
  // from row e * slots on, and `tokens` is local experts * slots.  Other rows are neither read nor
  // written, in `output` neither.  0: an expert's rows begin where those of the one before end.
  int slots = 0;
  // Of ready rows, how many there will be, as near as the caller knows; results don't depend on it.
  int expected_rows = 0;
  // Rows that are quantised already: `hidden` is e4m3 [tokens, d] and here are its scales, floats,
  // one a row and 128 columns, where the strides say; all strides 0: [tokens, d / 128].
  gpu::CUdeviceptr hidden_scales = 0;
  ScaleStrides scale_strides;
  gpu::CUdeviceptr output = 0;     // bf16 [tokens, d], written whole but for slots; 16-byte aligned
  gpu::CUdeviceptr workspace = 0;  // 256-byte aligned
  std::size_t workspace_bytes = 0;
  gpu::CUstream stream = nullptr;
  int forced = -1;   // a menu entry, or -1: choose
  int prefill = -1;  // weight units requested ahead, or -1: default_prefill
  // For timing halves.  `ffn` runs what the last `prepare` of this workspace left; entries that
  // claim items (dynamic) find the items claimed when `ffn` runs twice on one `prepare`.
  bool prepare = true, ffn = true;  // `combine` belongs to `ffn`
};

// What happened in a workspace since its counters were cleared, and in its last call.
struct LayerCounters {
  unsigned passes = 0;               // calls with tokens
  unsigned foreign = 0;              // ids of experts on other GPUs, skipped
  unsigned padded = 0;               // ids of -1, skipped
  unsigned invalid = 0;              // ids out of range, skipped; ready counts that were cut
  unsigned duplicate = 0;            // ids that their token had already, computed twice
  unsigned nan_gates = 0;            // router weights that are NaN; such a token's output is NaN
  std::vector<unsigned> entry_runs;  // calls that ran each entry
  int last_entry = 0, last_rows = 0, last_tiles = 0;
};

struct LayerArguments;
struct LayerMode;

class Layer {
 public:
  // Throws Error naming the option that is wrong.  Copies the expert map to the GPU; call it
  // outside of captures.
  Layer(std::shared_ptr<const Kernels> kernels, LayerOptions options, const DeviceWeights& weights);
  ~Layer();
  Layer(Layer&& other) noexcept;

  // Needed for calls of up to this many tokens.
  std::size_t workspace_bytes(int tokens) const;
  // For one call, which may need less than any call of its size.  Looks at no address but for
  // whether it is 0.
  std::size_t workspace_bytes(const LayerCall& call) const;
  Workspace workspace(const LayerCall& call) const;  // where everything lies in it
  LayerMode mode(const LayerCall& call) const;       // how it is done; see LayerOptions::row_a_pair
  int max_tokens() const { return max_tokens_; }

  // Once for each workspace, before its first call: sets the counters to zero.  Results never
  // depend on it.  Ordered in the stream; not needed again.
  void init_workspace(gpu::CUdeviceptr workspace, gpu::CUstream stream) const;

  // Throws Error for what can be seen without reading device memory, before anything is launched.
  void forward(const LayerCall& call) const;

  // The prefill that forward uses for a call of this size; with ready counts, of so many rows.
  int prefill_of(int tokens, bool ready_counts = false) const;

  LayerCounters counters(gpu::CUdeviceptr workspace, gpu::CUstream stream) const;  // waits
  void clear_counters(gpu::CUdeviceptr workspace, gpu::CUstream stream) const;

  const LayerOptions& options() const { return options_; }
  const Kernels& kernels() const { return *kernels_; }

 private:
  int down_prefill_of(const LayerCall& call, int prefill) const;
  std::shared_ptr<const Kernels> kernels_;
  LayerOptions options_;
  FfnWeightMaps maps_;
  gpu::Buffer expert_map_;
  std::unique_ptr<const LayerArguments> arguments_;  // of both kernels, but for what a call brings
  int max_tokens_ = 0;
  int deepest_prefill_ = 0;
  int least_rows_ = 0;  // of a tile, among the entries
};

// Everything that a layer can be refused for without a GPU; throws Error naming the option.
void check_layer_options(const LayerOptions& options);
void check_device_weights(const DeviceWeights& weights);
// The same of a call with tokens.
void check_layer_call(const LayerOptions& options, const LayerCall& call);

// The first expert of a map that is one ascending run of all local experts, which then needs no
// look-up; -1 for any other map.
int contiguous_first(std::span<const int> expert_map, int local_experts);
// The most tokens one call can bring: counts and tiles stay within 32 bits.
int max_tokens_of(const LocalShape& shape);

}  // namespace ramp
