// SPDX-License-Identifier: Apache-2.0
// Times of the `ffn` kernel on loads, for the profiling campaign: bursts of launches on ready tile
// lists over cold weights, many cells in flight, one wait a chunk (docs/measuring.md).
//
// Cold: the launches go round over copies of the weights, so many that between two reads of a byte
// more than twice the L2 cache is read.  A launch has a copy of the counters that blocks claim
// items from, so nothing has to be restored between launches.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "gpu/clocks.hpp"
#include "kernels/prepare/state.h"
#include "runtime/kernels.hpp"
#include "runtime/stopwatch.hpp"
#include "runtime/trial.hpp"

namespace ramp {

struct BurstCell {
  int config = 0;  // index into the kernels
  int load = 0;    // index into the loads
  int taken = 0;   // samples taken before: the order inside a load moves on with them
};

struct BurstSample {
  double us = 0;  // of one launch
  int sm_mhz = 0;
  bool throttled = false;
};

class BurstTimer {
 public:
  // Fills the copies of the weights: the larger part of the GPU's memory stays free.
  BurstTimer(const gpu::Context& context, const gpu::Clocks& clocks, const BenchProgram& bench,
             const LocalShape& shape);

  // samples[cell][round].  loads: n_e, which are laid on the experts in a mixed order that only
  // depends on the load.  kernels: menus of one entry.
  std::vector<std::vector<BurstSample>> measure(
      std::span<const std::shared_ptr<const Kernels>> kernels,
      std::span<const std::vector<int>> loads, std::span<const BurstCell> cells, int rounds);

  int weight_sets() const { return static_cast<int>(weights_.size()); }
  double burst_overhead_us() const { return overhead_us_; }

 private:
  struct PlacedLoad;
  struct Launch;
  PlacedLoad place(const std::vector<int>& load, std::vector<unsigned char>& arena) const;
  void reserve_rows(int tokens);
  void reserve_middle(std::size_t pairs);
  double measure_overhead();
  FfnArgs arguments(const FfnConfig& config, const PlacedLoad& load) const;

  const gpu::Context& context_;
  const gpu::Clocks& clocks_;
  const BenchProgram& bench_;
  LocalShape shape_;
  gpu::Stream stream_;
  Gate gate_;
  std::vector<TrialWeights> weights_;
  // By the topology and the split of the configurations.
  std::map<std::pair<int, int>, std::vector<FfnWeightMaps>> maps_;
  std::size_t next_set_ = 0;
  gpu::Buffer rows_q_, rows_scale_, output_, states_, arena_;
  gpu::Buffer ready_, middle_q_, middle_scale_;
  int row_tokens_ = 0;
  std::size_t middle_rows_ = 0;
  std::vector<gpu::Event> events_;
  double overhead_us_ = 0;
  double rest_s_ = 0;
};

// Token-expert pairs of a token that has any on this GPU.  A GPU that holds more than 4 k experts
// is taken for one that holds all of them, so that every token has k; else 1.5, as expert
// parallelism over 8 GPUs gives.
double pairs_of_token(const LocalShape& shape);

// n_e on the experts: the same load lies the same way every time.
std::vector<int> spread_load(const std::vector<int>& load, int experts);

// Rows for counts: each expert's tokens spread evenly over `tokens`.
std::vector<Row> spread_rows(std::span<const int> counts, int tokens);

// How long the GPU rests before its next chunk of work, by how long it rested before this one and
// whether this one came throttled: a power cap holds the clock down after some time of full tiles,
// and samples at a held clock are dropped, so less work keeps more of them.  At most four times the
// chunk: whoever waits for a measurement gives it ten.
double next_rest_s(double rest_s, double chunk_s, bool throttled);

// Launches in a burst: about 150 us, for something that takes at least `floor_us`.
int burst_launches(double floor_us);

}  // namespace ramp
