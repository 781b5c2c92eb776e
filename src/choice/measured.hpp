// SPDX-License-Identifier: Apache-2.0
// What a profiling campaign knows, in memory: candidates x loads -> times, and the forward passes
// the loads came from. lab/measurements reads and writes it (SQLite); fit, menu, policies and eval
// work on it and on nothing else, so measurements of kernels that are not ours enter here too.
#pragma once

#include <string>
#include <vector>

#include "choice/grid.h"
#include "problem/shape.h"

namespace ramp {

struct Candidate {
  std::string label;      // unique, e.g. "f1-r8-c256-s6-dynamic"
  std::string knobs;      // the configuration as one JSON object, what a plan stores
  Grid grid;              // what Eq. 1 sees
  std::string occupancy;  // entries of one menu share it (Section 3.3)
  int registers = 0;      // a thread, as compiled; 0 where unknown
  int smem_bytes = 0;     // a block, dynamic and static; 0 where unknown
  // What being one of several in a kernel costs it.  Not in files: whoever knows the kernel says it
  // (0: nothing, or unknown).
  float ahead_us = 0;    // us of weights that it asks for before the routing is known; a menu asks
                         // for as much as the least of its entries would, because it is not known
                         // either which of them runs
  float company_us = 0;  // us that it takes longer where it is one of several
};
// Where no larger share of a GPU's experts has a token, little or nothing is asked for ahead.
inline constexpr double kAheadShare = 0.3;

// Where a pass comes from.  kTrain: recorded, for fitting.  kTest: recorded, from requests no
// policy was fitted on. kUniform: uniform routing at vLLM's 18 batch sizes, for the policy that
// tunes as vLLM does.
enum class Role { kTrain, kTest, kUniform };

// One MoE layer of one forward pass: the layer waits for the slowest of its GPUs.
struct MeasuredPass {
  int tokens = 0;  // B, of the whole pass
  int layer = 0;
  std::string domain;
  Role role = Role::kTrain;
  std::vector<int>
      load_of_gpu;  // index into MeasuredSpace::loads; -1 where the GPU got no token (0 us)
};

struct Provenance {
  std::string model, layout;          // "olmoe", "ep8"
  std::string routing;                // "recorded: <trace>" or "generated: <calibration, seed>"
  std::string gpu, driver, toolkit;   // "NVIDIA H200", "580.159.04", "NVRTC 13.0"
  std::string commit, date, sources;  // sources: hash of the device code
  std::string how;                    // cold weights or flush, launches a sample
  std::string kernel;                 // whose times these are; empty: ramp's own
};

// What a kernel that is not ours runs by itself for passes of about so many tokens: its owner's
// table or default.
struct ShippedPick {
  int tokens = 0;
  std::string label;  // of a candidate
};

struct MeasuredSpace {
  Provenance provenance;
  LocalShape shape;
  int gpus = 1;                         // of the layout
  std::vector<Candidate> candidates;    // legal ones only
  std::vector<std::vector<int>> loads;  // n_e of the local experts, sorted descending; no two equal
  std::vector<MeasuredPass> passes;
  std::vector<std::vector<std::vector<float>>>
      samples;                       // [candidate][load]: us in the order taken, maybe empty
  std::vector<ShippedPick> shipped;  // ascending tokens; empty where nothing is known
};

// What the choice half relies on: sizes that agree, indexes inside, positive finite times, counts
// small enough that Eq. 1 fits an int (kMaxPairs).  Throws Error naming the field; readers call it
// once, nothing below checks again.
void check_space(const MeasuredSpace& space);

// Bounds under which features() can't overflow: pairs x col_tiles x phases < 2^31.
inline constexpr int kMaxPairs = 1 << 20;  // token-expert pairs of one GPU's load
inline constexpr int kMaxColTiles = 512;
inline constexpr int kMaxExperts = 4096;

}  // namespace ramp
