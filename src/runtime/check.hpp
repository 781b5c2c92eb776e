// SPDX-License-Identifier: Apache-2.0
// `ramp check`: the numbers of every configuration on the GPU against the reference, eager and in
// replayed graphs, alone and in polymorphic menus, on one stream and on two.  What `prepare` leaves
// is compared with its host twin bit for bit, and so is what `ordered` mode gives: over all entries
// that run in it, eager and replayed, and wherever a token stands.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/cubin_cache.hpp"
#include "runtime/check_cases.hpp"
#include "runtime/layer.hpp"
#include "runtime/trial.hpp"

namespace ramp {

struct CheckOptions {
  std::vector<FfnConfig> configs;
  std::vector<LocalShape> shapes;  // beside the settings of check_cases.hpp
  bool own_settings = true;        // those of check_cases.hpp
  int seeds = 1;                   // fresh inputs
  std::uint64_t first_seed = 1;
  bool small = false;  // one little case a configuration, for compute-sanitizer
  bool menus = true;   // polymorphic menus too
};

struct CheckRecord {
  std::string config;
  std::string test;  // "qwen3-like/ragged"
  double rel_err = 0;
  double tolerance = 0;
  bool ok = true;
  std::string detail;  // what was wrong
};

struct CheckEvents {
  std::function<void(double done, double total, const std::string& config)> progress;
  std::function<void(const CheckRecord&)> record;  // as soon as it is known: a hang may follow
  std::function<void(std::size_t done, std::size_t total)> compiling;
  // Before anything is unwound: memory of a GPU that hangs can't be freed, it would wait.
  std::function<void(const Hung&)> hung;
};

// In the current context, which must be `context`'s.  Configurations that don't compile cleanly
// give a record "compile".  Throws Hung when a kernel doesn't end.
void run_check(const gpu::Context& context, gpu::CubinCache& cache, const CheckOptions& options,
               const CheckEvents& events);

// Menus in which every entry is tried: for each tile width and cluster size of `configs`, the first
// configuration of each tile height, kMaxMenu at most.
std::vector<std::vector<FfnConfig>> check_menus(const std::vector<FfnConfig>& configs);

// bf16 additions into one output element: slices of h, for each of the token's local experts.
double output_adds(const FfnConfig& config, int intermediate, int most_pairs);

// One piece of 128 columns of one row may be this far off: half of what one wrong column makes.
inline constexpr double kPieceTolerance = 0.06;

// The bench kernels, from the cache.
BenchProgram load_bench(gpu::CubinCache& cache);

// A setting with its weights on the GPU and its answered cases.
struct TrialSetting {
  CheckSetting setting;
  TrialWeights weights;
  std::vector<CheckCase> cases;
  std::vector<DeviceBatch> batches;  // of the cases
  std::vector<gpu::Buffer> counts;   // ready counts, empty buffers elsewhere
  std::vector<gpu::Buffer> scales;   // of e4m3 rows, empty buffers elsewhere
};
TrialSetting make_trial(const BenchProgram& bench, const CheckSetting& setting, Cases which,
                        std::uint64_t seed, int threads = 0);

// A layer over the trial's weights.
Layer trial_layer(std::shared_ptr<const Kernels> kernels, const TrialSetting& trial,
                  std::vector<Theta> theta, bool ordered = false,
                  std::optional<bool> row_a_pair = {});

// Runs one case and compares everything; `forced` as in LayerCall.  output: gets the call's, if
// given.  hung: as in CheckEvents.
CheckRecord run_case(const Layer& layer, const TrialSetting& trial, std::size_t which, int forced,
                     const gpu::Stream& stream, std::vector<std::uint16_t>* output = nullptr,
                     const std::function<void(const Hung&)>& hung = {});

}  // namespace ramp
