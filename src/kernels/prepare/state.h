// SPDX-License-Identifier: Apache-2.0
// What `prepare` leaves in device memory for `ffn`, and the arguments of both: plain structs,
// shared by host and device.
#pragma once

#include "choice/cost_model.h"
#include "kernels/ffn/down_parts.h"

namespace ramp {

constexpr int kMaxMenu = 16;
constexpr int kMaxLocalExperts = 512;
constexpr int kMaxTopK = 32;

struct Menu {
  int entries = 0;
  MenuEntry entry[kMaxMenu];
};

// A token-expert pair of this GPU.
struct alignas(8) Row {
  int token;
  float gate;  // the router's weight
};

// Each expert's first rows also stand in a place that does not depend on the routing, so that a
// block that owns the expert's first tile can ask for them in the same breath as for their number.
constexpr int kHeadRows = 64;

// A row tile.  In topology F1 the list holds those that are claimed (not the ones that blocks own
// from the start).  In F3, whose down items are claimed in any case, the owned ones come first:
// tile e is the first of expert e, of no rows if the expert has none; and short ones may come last.
struct Tile {
  int expert_rows;  // expert | rows << 16 | kTileShares (F3: the expert has other tiles)
  int row0;         // first row, in the order grouped by expert
  int group_first;  // the first of this expert's claimed tiles that stand together ...
  int group_count;  // ... and how many they are
};
constexpr int kTileShares = 1 << 30;

// In F3 a tile of up to 64 rows takes half as long as a taller one.  Where items are few rounds of
// the blocks, such tiles come last, which evens out when blocks end (OLMoE on eight GPUs, 2,048
// tokens: 21 tiles of eight up items, five of them short: 57 -> 52 us).  Not in longer lists, where
// they would read their expert's weights a second time; nor does a tile leave the one that a
// cluster takes with it.
constexpr int kShortRows = 64, kFewRounds = 2;
RAMP_HD constexpr bool short_tiles_last(const Grid& grid, int tiles) {
  const Phase& up = grid.phase[0];
  return grid.phases > 1 && up.rows > kShortRows && tiles * up.col_tiles <= kFewRounds * up.slots;
}

// Counters add up until the caller clears them (ramp_layer_counters); the rest is of the last call.
struct LayerState {
  int choice;          // the entry that runs
  int tiles;           // in the list
  int claim;           // next item, counted up by the blocks
  int rows;            // token-expert pairs of this GPU
  int grouped;         // selecting blocks that have placed their pairs, and blocks that have seen
  int waited;          // it, of a launch; both 0 between launches
  unsigned passes;     // calls
  unsigned foreign;    // pairs of other GPUs
  unsigned padded;     // ids of -1
  unsigned invalid;    // ids out of range, skipped; ready counts out of range, cut
  unsigned duplicate;  // an id for the second time in one token: computed twice
  unsigned nan_gate;   // router weights that are NaN: that token's output is NaN
  unsigned entry_runs[kMaxMenu];
};

// Where the scale of a row's group of 128 columns stands, in floats.
struct ScaleStrides {
  long long expert = 0, row = 0, group = 0;  // expert: of rows in slots
};

// The same in `rows_scale`: a row's group, of `groups`.
RAMP_HD constexpr long long scale_at(int pitch, long long row, int group, int groups) {
  return pitch ? static_cast<long long>(group) * pitch + row : row * groups + group;
}

struct PrepareArgs {
  const int* ids;                // [tokens, top_k] global expert ids; null with ready counts
  const float* gates;            // [tokens, top_k] router weights; null means 1
  const unsigned short* hidden;  // [tokens, hidden] bf16; null: `ffn` reads e4m3 rows as they came
  const float* scales;           // of these, where `rows_scale` has to be made of them; else null
  ScaleStrides scale_strides;
  const int* expert_map;    // [experts] -> local or -1; null: first_expert .. first_expert +
                            // local_experts - 1
  const int* ready_counts;  // [local_experts] rows already grouped by expert; null with ids
  int slots;  // places that each expert's ready rows have, filled from the first on; 0: its rows
              // begin where those of the expert before end
  int expected_rows;  // for the host, of ready rows: how many there will be; 0: unknown
  int tokens;
  int top_k;
  int hidden_size;
  int experts;
  int first_expert;
  int local_experts;
  int owned_experts;
  int together;  // row tiles of an expert that a cluster takes at a time, in topology F3
  int forced;    // an entry, or -1 to choose
  Menu menu;
  int row_a_pair;          // rows are written in the order grouped by expert, behind the grouping
  unsigned char* rows_q;   // [tokens, hidden] e4m3; of tokens without local pairs: maybe not; with
                           // row_a_pair [pairs, hidden]
  float* rows_scale;       // [the same, hidden / 128]; or, in scale_pitch's order
  int scale_pitch;         // column by column: [hidden / 128, scale_pitch]; 0: row by row
  unsigned short* output;  // [tokens, hidden] bf16, zeroed here; null: others will write it whole
  LayerState* state;
  int* counts;    // [local_experts] n_e
  Row* rows;      // [rows] grouped by expert, in the order of the pairs; with slots [tokens]
  Row* head;      // [local_experts, kHeadRows] the first of each expert
  Tile* tile;     // [tiles]
  int* ready;     // [tiles] cleared where the entry has two phases
  int* position;  // [tokens, top_k] a pair's row, or -1; null where nobody asks
  // Of large loads, from the count to the group kernel (spread.cuh).
  int* run_counts;  // [runs, local_experts]
  int* places;      // [tokens, top_k] expert and rank inside the run
};

struct FfnArgs {
  const unsigned char* rows_q;
  const float* rows_scale;
  unsigned short* output;
  int rows_grouped;  // in topology F3: rows_q and rows_scale are in the order grouped by expert,
                     // else by token
  int scale_pitch;   // of rows_scale, as in PrepareArgs; only of grouped rows
  int most_rows;     // that rows_q, if grouped, and middle_q have room for
  const float* scale13;  // [local_experts, 2 * h / 128, d / 128]
  const float* scale2;   // [local_experts, d / 128, h / 128]
  LayerState* state;
  const int* counts;
  const Row* rows;
  const Row* head;
  const Tile* tile;
  int* ready;               // [tiles] 0 between launches; see phased/kernel.cuh
  unsigned char* middle_q;  // [rows, h] e4m3, in the order grouped by expert; topology F3
  float* middle_scale;      // [h / 128, column_pitch(most_rows)]
  unsigned short* slots;    // [rows, hidden] bf16, what each row gives; null: added into `output`
  int hidden;
  int intermediate;
  int owned_experts;
  int prefill;       // units requested before the routing is known
  int prefill_down;  // in topology F3, by blocks whose first item would be one of the down phase
  DownParts down_parts;  // in topology F3; none where rows go to slots
  int pace_ns;           // between two of them, of a block
};

// Of `ordered` mode: output[t] is the sum of its rows in FP32, in the order of its ids.
struct CombineArgs {
  const unsigned short* slots;  // [rows, hidden]
  const int* position;          // [tokens, top_k]
  unsigned short* output;       // [tokens, hidden]
  int tokens;
  int top_k;
  int hidden;
};

}  // namespace ramp
