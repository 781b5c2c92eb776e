// SPDX-License-Identifier: Apache-2.0
#include "runtime/stopwatch.hpp"

#include <algorithm>
#include <cmath>

#include "base/statistics.hpp"
#include "runtime/trial.hpp"

namespace ramp {
namespace {

constexpr double kSeconds = 30;  // a replay takes milliseconds
constexpr int kWarmUps = 2;
// Rounds that may be thrown away: as many as are wanted.
constexpr int kRoundsPerReplay = 2;

}  // namespace

GraphTimes time_graphs(const BenchProgram& bench, const gpu::Clocks& clocks,
                       const std::vector<TimedGraph>& graphs, int replays,
                       const gpu::Stream& stream) {
  Gate gate(bench);
  gpu::Event begin, end;
  std::vector<std::vector<double>> us(graphs.size()), throttled_us(graphs.size());
  std::vector<double> mhz;
  GraphTimes times;
  std::uint64_t reasons = 0;
  std::optional<gpu::ClockSample> clock;

  const auto replay = [&](const TimedGraph& g) {
    if (g.before) g.before(stream);
    gate.close(stream);
    begin.record(stream);
    g.graph.launch(stream);
    end.record(stream);
    gate.open();
    if (!clock) clock = clocks.sample();  // once a round, while the GPU works
    wait_for(stream, kSeconds, "graph " + g.name);
    return gpu::elapsed_us(begin, end);
  };

  for (const TimedGraph& g : graphs) g.graph.upload(stream);
  for (int i = 0; i < kWarmUps; ++i)
    for (const TimedGraph& g : graphs) replay(g);
  for (int round = 0; round < kRoundsPerReplay * replays && times.samples < replays; ++round) {
    std::vector<double> taken(graphs.size());
    clock.reset();
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      const std::size_t which = (i + static_cast<std::size_t>(round)) % graphs.size();
      taken[which] = replay(graphs[which]);
    }
    if (clock && clock->throttled(clocks.max_sm_mhz())) {
      reasons |= clock->reasons;
      ++times.dropped;
      for (std::size_t i = 0; i < graphs.size(); ++i) throttled_us[i].push_back(taken[i]);
      continue;
    }
    if (clock) mhz.push_back(clock->sm_mhz);
    for (std::size_t i = 0; i < graphs.size(); ++i) us[i].push_back(taken[i]);
    ++times.samples;
  }
  if (reasons) times.throttle = gpu::throttle_names(reasons);
  // A GPU that is held back all the time (long arithmetic at its power limit): its times are what
  // there is, and `throttle` without samples says so.
  if (times.samples == 0) us = throttled_us;
  for (const std::vector<double>& samples : us) {
    times.us.push_back(median(samples));
    times.spread.push_back(relative_spread(samples));
  }
  times.sm_mhz = mhz.empty() ? 0 : static_cast<int>(std::lround(median(mhz)));
  return times;
}

}  // namespace ramp
