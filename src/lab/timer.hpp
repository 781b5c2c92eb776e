// SPDX-License-Identifier: Apache-2.0
// The seam through which time comes into the lab: a kernel family on a machine, seen as labels that
// can be compiled, checked and timed.  The lab never sees a kernel.  Every call is a request with
// values in and values out, so that the same interface works in this process and through the pipe
// of a worker (lab/worker.hpp), which is where it normally runs: a hanging or faulting kernel takes
// its process with it.
//
// Words: a cell is one (configuration, load) of the table that a campaign fills; a round times
// every cell once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "choice/measured.hpp"
#include "problem/shape.h"

namespace ramp {

enum class ConfigStatus {
  kNew,          // legal as far as its description says; neither compiled nor checked yet
  kOk,           // compiled, and its numbers agreed with the reference
  kRefused,      // can't run for this shape or doesn't compile cleanly (spills, serialised wgmma)
  kWrong,        // its numbers disagreed with the reference: never timed
  kQuarantined,  // hung or crashed its process: never run again
};

// A configuration and what is known about it on this machine.
struct TimedConfig {
  Candidate candidate;
  ConfigStatus status = ConfigStatus::kNew;
  std::string reason;  // why it is not kOk
};

struct Sample {
  float us = 0;
  float sm_mhz = 0;        // SM clock while it was taken; 0 where nobody knows
  bool throttled = false;  // the clock was held down (power, heat) or the GPU was shared: to be
                           // dropped and retaken
};

struct Cell {
  int config = 0;  // index into MeasureRequest::labels
  int load = 0;    // index into MeasureRequest::loads
  int taken = 0;   // samples that were taken of it before, so the next one has this number
};

// What to time.  For every round, every cell once: cells of one load stay together so that drift
// hits the candidates alike, and the order inside a load starts a place
// further on in every round.
struct MeasureRequest {
  std::vector<std::string> labels;
  std::vector<std::vector<int>> loads;  // n_e of the local experts, sorted descending
  std::vector<Cell> cells;              // grouped by load
  int rounds = 1;
};

using PrepareProgress = std::function<void(int done, int total)>;

class KernelTimer {
 public:
  virtual ~KernelTimer() = default;

  // The machine's share of the provenance: gpu, driver, toolkit, sources, how.
  virtual Provenance environment() = 0;
  // Every configuration of the family for this shape, the refused ones with their reasons.  Called
  // once, before the calls below, which are about this shape.
  virtual std::vector<TimedConfig> space(const LocalShape& shape) = 0;
  // Compiles the configurations (all cores, cubin cache) and gives each with registers and shared
  // memory, kRefused where it does not compile cleanly.  Must be called for a label before verify
  // and measure.
  virtual std::vector<TimedConfig> prepare(const std::vector<std::string>& labels,
                                           const PrepareProgress& progress) = 0;
  // Runs one configuration against the reference.  Empty, or what was wrong.
  virtual std::string verify(const std::string& label) = 0;
  // samples[cell][round].
  virtual std::vector<std::vector<Sample>> measure(const MeasureRequest& request) = 0;
};

}  // namespace ramp
