// SPDX-License-Identifier: Apache-2.0
#include "runtime/burst_timer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <thread>
#include <tuple>

#include "base/statistics.hpp"
#include "kernels/prepare/runs.h"
#include "kernels/prepare/twin.hpp"
#include "problem/catalog.hpp"
#include "problem/random.hpp"
#include "runtime/prefill.hpp"

namespace ramp {
namespace {

constexpr double kSeconds = 30;  // a chunk takes tens of milliseconds
constexpr double kBurstUs = 150;
constexpr int kMostLaunches = 12;
constexpr double kShortestUs = 4;  // of any launch, for the number of launches
// Queued ahead of the gate; the driver's queue holds about 1,024 launches and then blocks.
constexpr int kChunkLaunches = 400;
constexpr int kChunkCells = 128;
constexpr int kGateLaunches = 96;
constexpr std::size_t kColdBytes = std::size_t{150} << 20;  // between two reads of a byte
constexpr int kLeastSets = 3, kMostSets = 256;
constexpr double kMemoryShare = 0.4;      // of what is free
constexpr std::size_t kStateBytes = 256;  // a state a line of its own
constexpr int kOverheadRepeats = 15;

std::size_t size_of(int n) { return static_cast<std::size_t>(n); }

std::size_t scale_bytes(int rows, int columns) {  // in either order
  return size_of(column_pitch(rows)) * size_of(columns / kScaleGroup) * sizeof(float);
}

// Appends values on 256 bytes; returns their offset.
template <class T>
std::size_t append(std::vector<unsigned char>& arena, const std::vector<T>& values) {
  const std::size_t at = (arena.size() + 255) / 256 * 256;
  arena.resize(at + values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(arena.data() + at, values.data(), values.size() * sizeof(T));
  return at;
}

// Each round: load after load, the cells of one load beginning a place further on.
std::vector<std::size_t> order_of(std::span<const BurstCell> cells, int rounds) {
  std::vector<std::size_t> order;
  for (int round = 0; round < rounds; ++round)
    for (std::size_t begin = 0; begin < cells.size();) {
      std::size_t end = begin;
      while (end < cells.size() && cells[end].load == cells[begin].load) ++end;
      const std::size_t n = end - begin;
      const std::size_t shift = size_of(std::max(0, cells[begin].taken) + round) % n;
      for (std::size_t i = 0; i < n; ++i) order.push_back(begin + (i + shift) % n);
      begin = end;
    }
  return order;
}

}  // namespace

double pairs_of_token(const LocalShape& shape) {
  if (shape.experts > 4 * shape.top_k) return shape.top_k;
  return std::min<double>(1.5, std::min(shape.top_k, shape.experts));
}

std::vector<int> spread_load(const std::vector<int>& load, int experts) {
  std::vector<int> counts = load;
  counts.resize(size_of(experts), 0);
  std::uint64_t seed = 0x51ed270b;
  for (const int n : load) seed = seed * 0x100000001b3ull + static_cast<std::uint64_t>(n) + 1;
  Random random(seed, 601);
  random.shuffle(counts);
  return counts;
}

std::vector<Row> spread_rows(std::span<const int> counts, int tokens) {
  std::vector<Row> rows;
  Random random(static_cast<std::uint64_t>(tokens), 602);
  for (const int n : counts) {
    const auto start = static_cast<long long>(random.below(static_cast<std::uint64_t>(tokens)));
    for (long long j = 0; j < n; ++j)
      rows.push_back({static_cast<int>((start + j * tokens / n) % tokens), 0.125f});
  }
  return rows;
}

double next_rest_s(double rest_s, double chunk_s, bool throttled) {
  constexpr double kMostChunks = 4, kShortestS = 0.001;
  const double most_s = kMostChunks * chunk_s;
  if (throttled) return std::min(std::max(2 * rest_s, chunk_s), most_s);
  return rest_s < kShortestS ? 0 : std::min(rest_s / 2, most_s);
}

int burst_launches(double floor_us) {
  const double launches = std::ceil(kBurstUs / std::max(floor_us, kShortestUs));
  return std::clamp(static_cast<int>(launches), 1, kMostLaunches);
}

// What a list of tiles depends on, of a configuration: the tiles' height and which are owned.
using TilesKey = std::tuple<int, int, int, int>;
TilesKey tiles_key(const FfnConfig& c) { return {c.topology, c.rows, c.cols, c.split}; }

// Where a load lies in the arena, and what a launch on it needs to know.
struct BurstTimer::PlacedLoad {
  GroupedRows grouped;
  int tokens = 0, active = 0, launches = 1;
  std::size_t counts = 0, rows = 0, head = 0;
  struct Tiles {
    std::size_t offset;
    int number;
  };
  std::map<TilesKey, Tiles> tiles;
};

BurstTimer::BurstTimer(const gpu::Context& context, const gpu::Clocks& clocks,
                       const BenchProgram& bench, const LocalShape& shape)
    : context_(context), clocks_(clocks), bench_(bench), shape_(shape), gate_(bench) {
  require_ffn_shape(shape);
  const auto bytes = static_cast<std::size_t>(weight_bytes(shape));
  const auto expert = static_cast<std::size_t>(expert_bytes(shape.hidden, shape.intermediate));
  const auto room =
      static_cast<std::size_t>(kMemoryShare * static_cast<double>(gpu::memory_info().free_bytes));
  const std::size_t wanted = std::clamp<std::size_t>((kColdBytes + expert - 1) / expert,
                                                     size_of(kLeastSets), size_of(kMostSets));
  const std::size_t sets = std::min(wanted, room / bytes);
  // A layer too small to fill that many sets is cold enough with kMostSets of them.
  if (sets < 2 || (sets < wanted && sets * bytes < 2 * kColdBytes))
    throw Error("memory of the GPU", fmt::format("{} bytes free", gpu::memory_info().free_bytes),
                fmt::format("room for {} copies of {} bytes of weights", wanted, bytes),
                "free the GPU, or profile a layout with more GPUs");
  for (std::size_t i = 0; i < sets; ++i) {
    weights_.push_back(random_weights(bench, shape, 1000 + i, stream_));
    for (const Topology topology : {kF1, kF3})
      for (const int split : kFfnSplits)
        maps_[{topology, split}].push_back(
            make_weight_maps(shape, weights_[i].w13.ptr(), weights_[i].w2.ptr(),
                             FfnConfig{.split = split, .topology = topology}));
  }
  states_ = gpu::Buffer(size_of(kChunkLaunches + kMostLaunches) * kStateBytes);
  for (int i = 0; i < 2 * kChunkCells; ++i) events_.emplace_back();
  wait_for(stream_, kSeconds, "filling the weights");
  overhead_us_ = measure_overhead();
}

// What a burst of n launches takes besides n times one of them: from two sizes of empty bursts.
double BurstTimer::measure_overhead() {
  constexpr int kFew = 4, kMany = 12;
  std::vector<double> few, many;
  for (int i = 0; i < kOverheadRepeats; ++i)
    for (const int n : {kFew, kMany}) {
      gate_.close(stream_);
      events_[0].record(stream_);
      for (int l = 0; l < n; ++l) bench_.empty(context_.info().sms, stream_);
      events_[1].record(stream_);
      gate_.open();
      wait_for(stream_, kSeconds, "empty launches");
      (n == kFew ? few : many).push_back(gpu::elapsed_us(events_[0], events_[1]));
    }
  const double one = (median(many) - median(few)) / (kMany - kFew);
  return std::clamp(median(few) - kFew * one, 0.0, 5.0);
}

void BurstTimer::reserve_rows(int tokens) {
  if (tokens <= row_tokens_) return;
  row_tokens_ = std::max(tokens, 2 * row_tokens_);
  const std::size_t elements = size_of(row_tokens_) * size_of(shape_.hidden);
  rows_q_ = gpu::Buffer(elements);
  const std::size_t scales = scale_bytes(row_tokens_, shape_.hidden);
  rows_scale_ = gpu::Buffer(scales);
  output_ = gpu::Buffer(elements * 2);
  bench_.random_e4m3(rows_q_.ptr(), elements, 7, stream_);
  bench_.random_scales(rows_scale_.ptr(), scales / sizeof(float), 1.0f / 112, 8, stream_);
  output_.fill_async(0, stream_);
}

// Between the projections, of two-phase configurations.
void BurstTimer::reserve_middle(std::size_t pairs) {
  if (pairs <= middle_rows_) return;
  middle_rows_ = std::max(pairs, 2 * middle_rows_);
  const std::size_t elements = middle_rows_ * size_of(shape_.intermediate);
  middle_q_ = gpu::Buffer(elements);
  middle_scale_ = gpu::Buffer(scale_bytes(static_cast<int>(middle_rows_), shape_.intermediate));
  ready_ = gpu::Buffer((middle_rows_ + size_of(shape_.experts)) * sizeof(int));
  ready_.fill_async(0, stream_);  // each launch leaves them so
}

BurstTimer::PlacedLoad BurstTimer::place(const std::vector<int>& load,
                                         std::vector<unsigned char>& arena) const {
  if (load.size() > size_of(shape_.experts))
    throw Error("load", fmt::format("{} experts", load.size()),
                fmt::format("at most the {} of this GPU", shape_.experts), "");
  PlacedLoad p;
  p.grouped = group_counts(spread_load(load, shape_.experts));
  const auto pairs = static_cast<int>(p.grouped.rows.size());
  const int fullest = *std::max_element(p.grouped.counts.begin(), p.grouped.counts.end());
  if (pairs == 0) throw Error("load", "no tokens", "one or more", "leave empty loads out");
  p.tokens = std::max(fullest, static_cast<int>(std::ceil(pairs / pairs_of_token(shape_))));
  p.grouped.rows = spread_rows(p.grouped.counts, p.tokens);
  p.active = static_cast<int>(
      std::count_if(p.grouped.counts.begin(), p.grouped.counts.end(), [](int n) { return n > 0; }));
  p.launches = burst_launches(floor_us(shape_, p.active, pairs));
  p.counts = append(arena, p.grouped.counts);
  std::vector<Row> padded = p.grouped.rows;
  padded.resize(padded.size() + kHeadRows, Row{0, 0.0f});  // a tile's rows are asked for whole
  p.rows = append(arena, padded);
  p.head = append(arena, head_rows(p.grouped));
  return p;
}

FfnArgs BurstTimer::arguments(const FfnConfig& config, const PlacedLoad& load) const {
  const auto at = [this](std::size_t offset) { return arena_.ptr(offset); };
  FfnArgs a{};
  a.rows_q = reinterpret_cast<const unsigned char*>(rows_q_.ptr());
  a.rows_scale = reinterpret_cast<const float*>(rows_scale_.ptr());
  a.output = reinterpret_cast<unsigned short*>(output_.ptr());
  a.counts = reinterpret_cast<const int*>(at(load.counts));
  a.rows = reinterpret_cast<const Row*>(at(load.rows));
  a.head = reinterpret_cast<const Row*>(at(load.head));
  a.ready = reinterpret_cast<int*>(ready_.ptr());
  a.middle_q = reinterpret_cast<unsigned char*>(middle_q_.ptr());
  a.middle_scale = reinterpret_cast<float*>(middle_scale_.ptr());
  a.hidden = shape_.hidden;
  a.intermediate = shape_.intermediate;
  a.owned_experts =
      ffn_owned_experts(config, shape_.intermediate, context_.info().sms, shape_.experts);
  a.tile = reinterpret_cast<const Tile*>(at(load.tiles.at(tiles_key(config)).offset));
  a.prefill = default_prefill(static_cast<double>(load.active) / shape_.experts,
                              deepest_prefill({&config, 1}, shape_.hidden));
  const int fullest = *std::max_element(load.grouped.counts.begin(), load.grouped.counts.end());
  a.prefill_down = down_prefill(a.prefill, fullest, config.rows, a.owned_experts == shape_.experts);
  const auto rows = static_cast<int>(load.grouped.rows.size());
  a.rows_grouped = config.topology == kF3 &&
                   pays_row_a_pair(shape_.intermediate, shape_.experts, rows, load.tokens);
  if (a.rows_grouped) a.scale_pitch = column_pitch(row_tokens_);
  a.most_rows = static_cast<int>(middle_rows_);
  a.down_parts = ffn_down_parts(a.hidden, a.intermediate, context_.info().sms);
  a.pace_ns = prefill_pace_ns(config, shape_.intermediate, a.owned_experts,
                              gpu_like(context_.info().name).stream_tbps);
  return a;
}

// One launch of a chunk.
struct BurstTimer::Launch {
  const Kernels* kernels;
  FfnArgs args;
};

std::vector<std::vector<BurstSample>> BurstTimer::measure(
    std::span<const std::shared_ptr<const Kernels>> kernels,
    std::span<const std::vector<int>> loads, std::span<const BurstCell> cells, int rounds) {
  // Everything that the device needs to know of all loads, in one copy.
  std::vector<unsigned char> arena;
  std::vector<PlacedLoad> placed;
  int tokens = 1;
  std::size_t pairs = 1;
  for (const std::vector<int>& load : loads) {
    placed.push_back(place(load, arena));
    tokens = std::max(tokens, placed.back().tokens);
    pairs = std::max(pairs, placed.back().grouped.rows.size());
  }
  for (const BurstCell& cell : cells) {
    const FfnConfig& c = kernels[size_of(cell.config)]->menu().front();
    PlacedLoad& load = placed[size_of(cell.load)];
    if (load.tiles.count(tiles_key(c))) continue;
    std::vector<Tile> tiles = listed_tiles(load.grouped, c, shape_, context_.info().sms);
    const int number = static_cast<int>(tiles.size());
    tiles.resize(tiles.size() + 1);  // an empty list has an address too
    load.tiles[tiles_key(c)] = {append(arena, tiles), number};
  }
  reserve_rows(std::max(tokens, static_cast<int>(pairs)));  // by token, or one a pair
  reserve_middle(pairs);
  if (arena_.bytes() < arena.size()) arena_ = gpu::Buffer(2 * arena.size());
  arena_.upload(arena.data(), arena.size());

  std::vector<std::vector<BurstSample>> samples(cells.size());
  const std::vector<std::size_t> order = order_of(cells, rounds);
  for (std::size_t at = 0; at < order.size();) {
    // A chunk: as many bursts as the queue takes.
    std::vector<unsigned char> states(states_.bytes());
    std::vector<Launch> launches;
    std::vector<int> first;  // launch of each cell of the chunk
    std::size_t end = at;
    while (end < order.size() && end - at < size_of(kChunkCells)) {
      const BurstCell& cell = cells[order[end]];
      const PlacedLoad& load = placed[size_of(cell.load)];
      if (!launches.empty() && launches.size() + size_of(load.launches) > size_of(kChunkLaunches))
        break;
      const Kernels* k = kernels[size_of(cell.config)].get();
      const FfnArgs args = arguments(k->menu().front(), load);
      const PlacedLoad::Tiles& tiles = load.tiles.at(tiles_key(k->menu().front()));
      const LayerState state =
          prepared_state(0, tiles.number, static_cast<int>(load.grouped.rows.size()));
      first.push_back(static_cast<int>(launches.size()));
      for (int l = 0; l < load.launches; ++l) {
        std::memcpy(&states[launches.size() * kStateBytes], &state, sizeof state);
        launches.push_back({k, args});
        launches.back().args.state =
            reinterpret_cast<LayerState*>(states_.ptr((launches.size() - 1) * kStateBytes));
      }
      ++end;
    }
    first.push_back(static_cast<int>(launches.size()));
    states_.upload(states.data(), launches.size() * kStateBytes);

    if (rest_s_ > 0) std::this_thread::sleep_for(std::chrono::duration<double>(rest_s_));
    const auto start = std::chrono::steady_clock::now();
    gate_.close(stream_);
    for (std::size_t c = 0; c + 1 < first.size(); ++c) {
      events_[2 * c].record(stream_);
      for (int l = first[c]; l < first[c + 1]; ++l) {
        Launch& launch = launches[size_of(l)];
        const std::size_t set = next_set_++ % weights_.size();
        launch.args.scale13 = reinterpret_cast<const float*>(weights_[set].s13.ptr());
        launch.args.scale2 = reinterpret_cast<const float*>(weights_[set].s2.ptr());
        const FfnProgram& ffn = launch.kernels->ffn();
        ffn.launch(launch.args, maps_.at({ffn.menu()[0].topology, ffn.menu()[0].split})[set],
                   context_.info().sms, stream_);
      }
      events_[2 * c + 1].record(stream_);
      if (first[c + 1] >= kGateLaunches) gate_.open();
    }
    gate_.open();
    const std::optional<gpu::ClockSample> clock = clocks_.sample();  // while the GPU works
    wait_for(stream_, kSeconds, "a chunk of bursts");
    const std::chrono::duration<double> chunk = std::chrono::steady_clock::now() - start;
    const bool throttled = clock && clock->throttled(clocks_.max_sm_mhz());
    rest_s_ = next_rest_s(rest_s_, chunk.count(), throttled);
    for (std::size_t c = 0; c + 1 < first.size(); ++c) {
      const double burst = gpu::elapsed_us(events_[2 * c], events_[2 * c + 1]) - overhead_us_;
      samples[order[at + c]].push_back(
          {std::max(burst, 0.1) / (first[c + 1] - first[c]), clock ? clock->sm_mhz : 0, throttled});
    }
    at = end;
  }
  return samples;
}

}  // namespace ramp
