// SPDX-License-Identifier: Apache-2.0
// What the host code takes: the choice's twin, the fit and evaluation of a shipped campaign,
// reading a shipped trace.  ./ramp-dev bench runs it.
#include <benchmark/benchmark.h>

#include <random>

#include "choice/evaluate.hpp"
#include "choice/fit.hpp"
#include "choice/plan.hpp"
#include "choice/tune.hpp"
#include "lab/measurements.hpp"
#include "problem/trace_file.hpp"

namespace ramp {
namespace {

const std::string kMeasured = RAMP_SOURCE_DIR "/data/h200/qwen3-30b-ep8.rmeas";

// One GPU of 8, top 8 of 128, on the menu that a plan of the shipped measurements has.
void SelectPairs(benchmark::State& state) {
  const std::vector<MenuEntry> menu = menu_of(tune_from(load_measurements(kMeasured), {}));
  const int pairs = static_cast<int>(state.range(0));
  std::mt19937 rng(1);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(pairs)), map(128, -1);
  for (auto& id : ids) id = static_cast<std::int32_t>(rng() % 128);
  for (int e = 0; e < 16; ++e) map[static_cast<std::size_t>(e)] = e;
  for (auto _ : state) benchmark::DoNotOptimize(select(ids, 8, map, 16, menu).entry);
}
BENCHMARK(SelectPairs)->Arg(64)->Arg(4096)->Arg(262144)->Unit(benchmark::kMicrosecond);

void LoadMeasurements(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(load_measurements(kMeasured).loads.size());
}
BENCHMARK(LoadMeasurements)->Unit(benchmark::kMillisecond);

void EvaluateAllPolicies(benchmark::State& state) {
  const MeasuredSpace space = load_measurements(kMeasured);
  for (auto _ : state) {
    auto result = evaluate(space, {});
    benchmark::DoNotOptimize(result);
  }
}
BENCHMARK(EvaluateAllPolicies)->Unit(benchmark::kMillisecond);

void ReadTrace(benchmark::State& state) {
  for (auto _ : state)
    benchmark::DoNotOptimize(
        read_trace(RAMP_SOURCE_DIR "/data/traces/dsv2lite_esft.rtrace").trace.ids.size());
}
BENCHMARK(ReadTrace)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ramp
