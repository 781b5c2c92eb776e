// SPDX-License-Identifier: Apache-2.0
// A configuration of the `ffn` kernel: what can be chosen, what is legal, the Grid it makes and the
// shared memory it takes.  Shared by host and device, so that neither can disagree with the other.
//
// A block walks over items.  In topology F1 an item is one row tile (up to `rows` tokens of one
// expert) times one slice of h (cols / 2 columns): it multiplies the rows by the gate and up
// weights of its slice over all of d, applies SwiGLU, quantises, multiplies by the slice of the
// down weights and adds the result into the output.  In topology F3 these are two kinds of items
// (phased/kernel.cuh): fewer additions into the output, a trip of the middle rows through memory.
#pragma once

#include "choice/grid.h"
#include "kernels/ffn/down_parts.h"
#include "kernels/numeric.h"

namespace ramp {

enum Topology { kF1 = 1, kF3 = 3 };

struct FfnConfig {
  int rows = 8;    // token rows a tile
  int cols = 256;  // gate and up rows a block holds at once; cols / 2 columns of h
  int stages = 6;  // ring depth, in units of 32 KB of weights
  int staging =
      2;  // output buffers of a warpgroup: 2 lets the next tile be written while one is being added
  int dynamic = 1;  // items are claimed from a counter (1) or dealt out by stride (0)
  int split = 1;  // F1: blocks of a cluster that share an item: each takes a part of its columns of
                  // h in the up projection and of the output's columns in the down projection.
                  // F3: blocks of a cluster that take two row tiles of an expert at a time, each
                  // of them half of the weights for both
  int grouped = 0;  // neighbours in time: row tiles of one slice (1), which share weights in L2, or
                    // slices of one tile
  int topology = kF1;

  // The one list of knobs beside the topology, which the family's name says: label, JSON, template
  // literal and cache key come from it.
  template <class Self, class Visit>
  RAMP_HD static constexpr void fields(Self& c, Visit&& v) {
    v("rows", c.rows), v("cols", c.cols), v("stages", c.stages), v("staging", c.staging),
        v("dynamic", c.dynamic), v("split", c.split), v("grouped", c.grouped);
  }
};

// A block: one producer warpgroup (a warp that schedules and loads weights, three that gather rows)
// and two consumers.
constexpr int kFfnThreads = 384;
constexpr int kFfnConsumers = 2;
constexpr int kFfnGatherThreads = 96;
constexpr int kFfnProducerRegisters = 88;
constexpr int kFfnConsumerRegisters = 208;  // together no more than the launch has
constexpr int kFfnSplits[] = {1, 2, 4};
constexpr int kFfnUnitBytes = 32768;  // 256 weight rows of 128 bytes
constexpr int kFfnMaxStages = 8;
constexpr int kFfnItemSlots = 2;
constexpr int kFfnClaimSlots = kFfnItemSlots + 1;  // of a cluster's claims, see producer.cuh
constexpr int kFfnExchanges = 2;                   // items between which they activate together
constexpr int kFfnUnitCols = 256;                  // output columns a down unit covers
constexpr int kFfnStagingPitch =
    kFfnUnitCols * 2 + 16;                  // bytes; the pad spreads the rows over the banks
constexpr int kSharedMemoryLimit = 232448;  // a block's on sm_90

constexpr int kFfnAtOnce = 2;  // units that a block requests at once when it starts
// Units that a block's consumers take into registers before the routing is known: the ring grows by
// as many.  What the sums of a tile leave of a thread's registers (32 a unit).
constexpr int kFfnMaxEarly = 4;
RAMP_HD constexpr int ffn_early(const FfnConfig& c) {
  if (c.topology == kF3) return 0;
  const int alone = c.cols > 256 ? 0 : c.rows <= 8 ? 4 : c.rows <= 24 ? 3 : 2;
  const int fit = c.split > 1 ? alone - 1 : alone;
  return fit < c.stages ? fit : c.stages;
}

// What the entries of a menu have in common before it is known which of them runs.
struct MenuStart {
  FfnConfig any;  // for columns and split, which are the same in all
  int rows = 0;   // of the tallest
  int ring = kFfnMaxStages, early = kFfnMaxEarly;
};
RAMP_HD constexpr MenuStart menu_start(const FfnConfig* menu, int entries) {
  MenuStart start;
  start.any = menu[0];
  for (int i = 0; i < entries; ++i) {
    if (menu[i].rows > start.rows) start.rows = menu[i].rows;
    if (menu[i].stages < start.ring) start.ring = menu[i].stages;
    if (ffn_early(menu[i]) < start.early) start.early = ffn_early(menu[i]);
  }
  return start;
}

// Where everything lies in dynamic shared memory, in bytes.  The weight ring is first and the same
// for every entry: a block fills it before it knows which entry runs.
struct FfnLayout {
  int rows, intermediate, staging, scales_x, scales_w, scales_mid, exchange, items, item_bytes,
      bytes;
};
// Barriers and claims lie before the ring.
constexpr int kFfnBarrierBytes = 384;

RAMP_HD constexpr int ffn_groups(const FfnConfig& c) { return c.cols / 2 / kScaleGroup; }

constexpr int kConsumerWarps = 4 * kFfnConsumers;
// FP32 sums on their way to the warps that activate whole rows: for each warpgroup and accumulator
// a plane of [rows][64 columns]; the pitch spreads the rows over the banks.
constexpr int kFfnSumsPitch = (64 + 4) * 4;
RAMP_HD constexpr int ffn_sums_bytes(const FfnConfig& c) {
  return 2 * kFfnConsumers * c.rows * kFfnSumsPitch;
}
// Columns of h that a block of a cluster activates, of an item's 128.
RAMP_HD constexpr int ffn_own_columns(const FfnConfig& c) { return kScaleGroup / c.split; }

// early: units in registers, ffn_early or fewer.
RAMP_HD constexpr FfnLayout ffn_layout(const FfnConfig& c, int early) {
  FfnLayout l{};
  const int places = c.stages + early, k_blocks = c.split;  // 128-blocks of d in an up unit
  int at = c.stages * kFfnUnitBytes;
  l.rows = at, at += places * k_blocks * c.rows * kScaleGroup;
  l.intermediate = at, at += ffn_groups(c) * c.rows * kScaleGroup;
  // The sums lie where the output is staged later.
  const int staging = kFfnConsumers * c.staging * c.rows * kFfnStagingPitch;
  l.staging = at, at += staging > ffn_sums_bytes(c) ? staging : ffn_sums_bytes(c);
  // What the cluster's other blocks activated.
  l.exchange = at, at += kFfnExchanges * c.rows * (kScaleGroup - ffn_own_columns(c)) * 4;
  l.scales_x = at, at += places * k_blocks * c.rows * 4;
  l.scales_w = at, at += places * k_blocks * 2 * 4;
  l.scales_mid = at, at += ffn_groups(c) * c.rows * 4;
  l.item_bytes = 16 + c.rows * 8;  // ItemHead, then a Row a row
  l.items = round_up(at, 16), at = l.items + kFfnItemSlots * l.item_bytes;
  l.bytes = round_up(at, 16);
  return l;
}

// The same of topology F3.
struct PhasedLayout {
  int rows, staging, scales_x, row_max, items, item_bytes, item_rows, bytes;
};
constexpr int kPhasedClaimSlots =
    kFfnMaxStages + 2;                 // of a cluster's claims, see phased/producer.cuh
constexpr int kPhasedHeadBytes = 32;   // PhasedItem
constexpr int kPhasedBoxRows = 32;     // that a copy brings of rows that stand together
constexpr int kPhasedMostUnits = 256;  // of an item: 128-blocks of d or of h
// Places for a tile's row scales: they come in fours, from the one on that the first is in.
RAMP_HD constexpr int phased_scales(int rows) { return rows + kScalesTogether; }
constexpr int kPhasedMiddlePitch = kScaleGroup + 16;  // bytes, of activated rows in `staging`
RAMP_HD constexpr PhasedLayout phased_layout(int rows, int stages) {
  PhasedLayout l{};
  int at = stages * kFfnUnitBytes;
  l.rows = at, at += stages * rows * kScaleGroup;
  l.staging = at, at += rows * kFfnStagingPitch;
  l.scales_x = at, at += stages * phased_scales(rows) * 4;
  l.row_max = at, at += kFfnConsumers * 64 * 4;
  // PhasedItem, the weights' two scales of each unit, a Row a row.
  l.item_rows = kPhasedHeadBytes + 2 * kPhasedMostUnits * 4;
  l.item_bytes = l.item_rows + rows * 8;
  l.items = round_up(at, 16), at = l.items + kFfnItemSlots * l.item_bytes;
  l.bytes = round_up(at, 16);
  return l;
}

// Shared memory of the launch: alignment slack, barriers and the largest entry.
RAMP_HD constexpr int ffn_shared_bytes(const FfnConfig& c) {
  const int bytes =
      c.topology == kF3 ? phased_layout(c.rows, c.stages).bytes : ffn_layout(c, ffn_early(c)).bytes;
  return 1024 + kFfnBarrierBytes + bytes;
}

RAMP_HD constexpr const char* phased_refusal(const FfnConfig& c) {
  if (c.rows != 64 && c.rows != 128) return "rows: f3 is built with 64 and 128";
  if (c.cols != 256) return "cols: f3 is built with 256";
  if (c.stages < 2 || c.stages > kFfnMaxStages) return "stages: 2 to 8";
  if (c.staging != 1) return "staging: 1 in f3";
  if (c.split != 1 && c.split != 2) return "split: 1 or 2 in f3";
  if (c.dynamic < 0 || c.dynamic > 1) return "dynamic: 0 or 1";
  if (c.grouped < 0 || c.grouped > 1) return "grouped: 0 or 1";
  if (c.split == 2 && (!c.dynamic || !c.grouped))
    return "split: clusters of f3 claim row tiles that share weights (dynamic and grouped)";
  if (ffn_shared_bytes(c) > kSharedMemoryLimit)
    return "shared memory: more than a block's 232448 bytes";
  return nullptr;
}

// nullptr, or why the configuration can't be built.
RAMP_HD constexpr const char* ffn_refusal(const FfnConfig& c) {
  if (c.topology == kF3) return phased_refusal(c);
  if (c.topology != kF1) return "topology: f1 and f3 are built";
  if (c.rows != 8 && c.rows != 16 && c.rows != 24 && c.rows != 32 && c.rows != 40 && c.rows != 48 &&
      c.rows != 64)
    return "rows: 8, 16, 24, 32, 40, 48 and 64 are built";
  if (c.cols != 256 && c.cols != 512) return "cols: 256 and 512 are built";
  if (c.stages < 2 || c.stages > kFfnMaxStages) return "stages: 2 to 8";
  if (c.staging < 1 || c.staging > 2) return "staging: 1 or 2";
  if (c.dynamic < 0 || c.dynamic > 1) return "dynamic: 0 or 1";
  if (c.split != kFfnSplits[0] && c.split != kFfnSplits[1] && c.split != kFfnSplits[2])
    return "split: 1, 2 and 4 are built";
  if (c.split > 1 && c.cols != 256) return "split: items of 256 columns are split";
  if (c.split > 1 && c.rows > (c.split == 2 ? 48 : 24))
    return "rows: taller tiles spill registers in a cluster; 48 and fewer in two blocks, 24 in "
           "four";
  if (c.grouped < 0 || c.grouped > 1) return "grouped: 0 or 1";
  if (c.rows * c.cols > 32 * 512)
    return "rows x cols: more sums than two consumer warpgroups have registers for";
  if (ffn_shared_bytes(c) > kSharedMemoryLimit)
    return "shared memory: more than a block's 232448 bytes";
  // 512 columns take their stages in pairs, and a pair must not wait for itself.
  if (c.cols == 512 && c.stages < 3) return "stages: 512 columns need 3 or more";
  return nullptr;
}

// The same for a shape that a configuration can be asked to run.
RAMP_HD constexpr const char* ffn_shape_refusal(const FfnConfig& c, int hidden, int intermediate) {
  if (hidden / kScaleGroup < c.split)
    return "hidden: every block of a cluster takes a part of its 128 columns";
  if (c.topology == kF3 &&
      (hidden > kPhasedMostUnits * kScaleGroup || intermediate > kPhasedMostUnits * kScaleGroup))
    return "hidden and intermediate: 32768 at most in f3, which keeps an item's weight scales";
  return nullptr;
}

// Slices of h: q_c of the up projection.  The last may be half empty (h = 1408 at 512 columns).
RAMP_HD constexpr int ffn_slices(const FfnConfig& c, int intermediate) {
  return ceil_div(intermediate, c.cols / 2);
}

RAMP_HD constexpr Grid ffn_grid(const FfnConfig& c, int hidden, int intermediate, int blocks) {
  const int slices = ffn_slices(c, intermediate);
  if (c.topology == kF3)
    return Grid{{{c.rows, slices, blocks}, {c.rows, ceil_div(hidden, kFfnUnitCols), blocks}}, 2};
  return Grid{{{c.rows, slices, blocks / c.split}, {}}, 1};
}

// Additions of bf16 rows into an output element, of one token-expert pair, at most.
RAMP_HD constexpr int ffn_additions(const FfnConfig& c, int intermediate) {
  if (c.topology == kF1) return ffn_slices(c, intermediate);
  const int parts = intermediate / kScaleGroup / DownParts::kLeastUnits;
  return parts < 1 ? 1 : parts < DownParts::kMost ? parts : DownParts::kMost;
}

// The down parts of a layer in topology F3.
RAMP_HD constexpr DownParts ffn_down_parts(int hidden, int intermediate, int blocks) {
  return down_parts_of(intermediate / kScaleGroup, ceil_div(hidden, kFfnUnitCols), blocks);
}

// Experts whose first row tile belongs to a fixed block from the start, so that its weights can be
// requested before the routing is known: block b (with `split`: cluster b) holds slice b % slices
// of expert b / slices (in topology F3 of the up projection; there clusters own none, because what
// their blocks share depends on the number of an expert's tiles).
RAMP_HD constexpr int ffn_owned_experts(const FfnConfig& c, int intermediate, int blocks,
                                        int experts) {
  if (c.topology == kF3 && c.split > 1) return 0;
  const int whole = blocks / c.split / ffn_slices(c, intermediate);
  return whole < experts ? whole : experts;
}

// Row tiles of an expert that are taken at a time.
RAMP_HD constexpr int ffn_tiles_together(const FfnConfig& c) {
  return c.topology == kF3 ? c.split : 1;
}

// Units of an up projection over all of d, of one 128-block of h.
RAMP_HD constexpr int ffn_up_units(const FfnConfig& c, int hidden) {
  return ceil_div(hidden / kScaleGroup, c.split);
}

// Part `rank` of `all` blocks of 256 output columns: begin and, with rank + 1, end.
RAMP_HD constexpr int ffn_part(int all, int rank, int split) { return all * rank / split; }

}  // namespace ramp
