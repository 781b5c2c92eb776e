// SPDX-License-Identifier: Apache-2.0
// A KernelTimer behind a process border: when a configuration hangs or crashes the worker, it is
// found, given up, and everything else goes on in a new worker.
//
// The rule of two strikes: a configuration is quarantined when the worker died twice with it, the
// second time alone, so that neither its neighbours in a batch nor a fault from outside (the OOM
// killer) can condemn it.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lab/timer.hpp"
#include "lab/worker_process.hpp"

namespace ramp {

// Seconds without an answer after which a worker counts as hung.
struct WorkerLimits {
  double open = 120;           // driver start, device memory
  double prepare = 300;        // between two configurations compiled
  double verify = 30;          // the reference in double precision on the host
  double first_measure = 15;   // a new worker fills its cold weights first
  double measure_least = 5;    // later measurements: the larger of this and
  double measure_factor = 10;  // this times what is expected
};

struct Incident {
  std::string label;
  std::string reason;
};

struct Measurement {
  std::vector<std::vector<Sample>>
      samples;  // [cell][round]; empty for cells of quarantined configurations
  std::vector<Incident> quarantined;
};

class IsolatedTimer {
 public:
  // Starts a worker and opens the shape.  interrupted: see WorkerProcess.
  IsolatedTimer(Spawn spawn, const LocalShape& shape, const WorkerLimits& limits,
                const std::atomic<bool>* interrupted);

  const Provenance& environment() const { return environment_; }
  const std::vector<TimedConfig>& space() const { return space_; }

  // As KernelTimer::prepare; kQuarantined where the compiler died twice.  Status kNew otherwise:
  // not checked yet.
  std::vector<TimedConfig> prepare(const std::vector<std::string>& labels,
                                   const PrepareProgress& progress);

  struct Verdict {
    ConfigStatus status = ConfigStatus::kOk;  // kOk, kWrong or kQuarantined
    std::string reason;
  };
  Verdict verify(const std::string& label);

  // expected_s: how long the request should take.  Labels must be prepared and verified.
  Measurement measure(const MeasureRequest& request, double expected_s);

  int deaths() const { return deaths_; }

 private:
  std::optional<Death> call(const Request& request, double seconds, Reply& reply,
                            const PrepareProgress& progress = {});
  void start();
  std::optional<Death> make_ready(const std::vector<std::string>& labels);
  std::optional<Death> try_measure(const MeasureRequest& request, double expected_s,
                                   Measurement& into);

  Spawn spawn_;
  LocalShape shape_;
  WorkerLimits limits_;
  const std::atomic<bool>* interrupted_;
  Provenance environment_;
  std::vector<TimedConfig> space_;
  std::unique_ptr<WorkerProcess> worker_;
  std::set<std::string> ready_;  // prepared in this worker
  bool has_measured_ = false;    // this worker
  int deaths_ = 0;
};

}  // namespace ramp
