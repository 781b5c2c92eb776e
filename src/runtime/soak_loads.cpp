// SPDX-License-Identifier: Apache-2.0
#include "runtime/soak_loads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/numeric.h"
#include "kernels/prepare/runs.h"
#include "problem/random.hpp"

namespace ramp {
namespace {

// Streams of the seed (problem/random.hpp): two a replay.
std::uint64_t stream_of(int number, int use) {
  return 1000 + 2 * static_cast<std::uint64_t>(number) + static_cast<std::uint64_t>(use);
}

class Drawer {
 public:
  Drawer(const CheckSetting& setting, int tokens, std::uint64_t seed, int number)
      : setting_(setting), map_(full_map(setting)), random_(seed, stream_of(number, 0)) {
    load_.tokens = tokens;
    load_.ids.assign(size(tokens) * size(k()), -1);
    for (int id = 0; id < setting.experts; ++id)
      (map_[size(id)] >= 0 ? local_ : foreign_).push_back(id);
  }

  SoakLoad draw() {
    load_.kind = static_cast<SoakKind>(below(kSoakKinds));
    const std::vector<int> live = live_tokens();
    load_.live = static_cast<int>(live.size());
    const std::vector<double> weights = expert_weights();
    const int hot = local_[size(below(static_cast<int>(local_.size())))];
    for (const int t : live) {
      switch (load_.kind) {
        case SoakKind::kEmpty:
          draw_foreign_ids(t);
          break;
        case SoakKind::kOneExpert:
          draw_foreign_ids(t);
          id(t, below(k())) = hot;
          break;
        default:
          draw_ids(t, weights);
      }
      if (load_.kind == SoakKind::kStrange) spoil(t);
    }
    draw_gates();
    return std::move(load_);
  }

 private:
  static std::size_t size(int n) { return static_cast<std::size_t>(n); }
  int below(int n) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(n))); }
  int k() const { return setting_.shape.top_k; }
  int& id(int t, int j) { return load_.ids[size(t) * size(k()) + size(j)]; }

  // All of them every other time, else a number whose logarithm is uniform; at the front, as a
  // server pads its batches, or anywhere.
  std::vector<int> live_tokens() {
    int n = load_.tokens;
    if (load_.kind == SoakKind::kOneToken)
      n = 1;
    else if (below(2))
      n = std::clamp(static_cast<int>(std::exp(random_.uniform() * std::log(n + 1.0))), 1, n);
    std::vector<int> all(size(load_.tokens));
    std::iota(all.begin(), all.end(), 0);
    if (below(4) == 0 || n == 1) random_.shuffle(all);
    all.resize(size(n));
    return all;
  }

  // Uniform, or falling like 1 / rank^s in an order of its own.
  std::vector<double> expert_weights() {
    std::vector<double> weights(size(setting_.experts), 1.0);
    if (load_.kind != SoakKind::kSkewed) return weights;
    std::vector<int> order(weights.size());
    std::iota(order.begin(), order.end(), 0);
    random_.shuffle(order);
    const double steepness = 0.5 + 2 * random_.uniform();
    for (std::size_t r = 0; r < order.size(); ++r)
      weights[size(order[r])] = std::pow(static_cast<double>(r + 1), -steepness);
    return weights;
  }

  // Of other GPUs, where there are some; else they stay -1.
  void draw_foreign_ids(int t) {
    if (foreign_.empty()) return;
    for (int j = 0; j < k(); ++j)
      id(t, j) = foreign_[size(below(static_cast<int>(foreign_.size())))];
  }

  // k different experts, by weight: the k largest of log(u) / w.
  void draw_ids(int t, const std::vector<double>& weights) {
    keys_.clear();
    for (std::size_t e = 0; e < weights.size(); ++e)
      keys_.push_back({std::log(random_.uniform()) / weights[e], static_cast<int>(e)});
    const int n = std::min(k(), setting_.experts);
    std::partial_sort(keys_.begin(), keys_.begin() + n, keys_.end(), std::greater<>());
    for (int j = 0; j < n; ++j) id(t, j) = keys_[size(j)].second;
  }

  // -1 among real ids, ids of nobody, an id twice.
  void spoil(int t) {
    const int j = below(k());
    switch (below(4)) {
      case 0:
        id(t, j) = -1;
        break;
      case 1:
        id(t, j) = setting_.experts + t;
        break;
      case 2:
        id(t, j) = std::numeric_limits<int>::min() + t;
        break;
      default:
        id(t, j) = id(t, 0);
    }
  }

  void draw_gates() {
    for (int t = 0; t < load_.tokens; ++t) {
      float sum = 0;
      const std::size_t begin = load_.gates.size();
      for (int j = 0; j < k(); ++j)
        load_.gates.push_back(0.1f + random_.uniform_float()), sum += load_.gates.back();
      for (std::size_t i = begin; i < load_.gates.size(); ++i) load_.gates[i] /= sum;
    }
  }

  const CheckSetting& setting_;
  std::vector<int> map_, local_, foreign_;
  Random random_;
  SoakLoad load_;
  std::vector<std::pair<double, int>> keys_;
};

int local_of(int id, const std::vector<int>& map) {
  return id >= 0 && id < static_cast<int>(map.size()) ? map[static_cast<std::size_t>(id)] : -1;
}

constexpr double kWrong = std::numeric_limits<double>::infinity();

// The error over rows that come one by one.
struct Sum {
  double difference = 0, norm = 0, worst_piece = 0;

  void add(const std::vector<float>& want, const std::uint16_t* got) {
    for (std::size_t at = 0; at < want.size(); at += kScaleGroup) {
      float off = 0, of = 0;
      for (std::size_t i = at; i < at + kScaleGroup; ++i) {
        const float by = from_bf16(got[i]) - want[i];
        off += by * by, of += want[i] * want[i];
      }
      if (!(off <= std::numeric_limits<float>::max())) off = std::numeric_limits<float>::infinity();
      difference += off, norm += of;
      if (off > 0) worst_piece = std::max(worst_piece, std::sqrt(double{off} / of));
    }
  }
  OutputError error() const {
    return {norm > 0 ? std::sqrt(difference / norm) : difference > 0 ? kWrong : 0, worst_piece};
  }
};

}  // namespace

std::string soak_kind_name(SoakKind kind) {
  switch (kind) {
    case SoakKind::kUniform:
      return "uniform";
    case SoakKind::kSkewed:
      return "skewed";
    case SoakKind::kOneExpert:
      return "one-expert";
    case SoakKind::kEmpty:
      return "empty";
    case SoakKind::kOneToken:
      return "one-token";
    case SoakKind::kStrange:
      return "strange-ids";
  }
  return "?";
}

std::string SoakLoad::name() const {
  return fmt::format("{}, {} of {} tokens", soak_kind_name(kind), live, tokens);
}

SoakLoad draw_soak_load(const CheckSetting& setting, int tokens, std::uint64_t seed, int number) {
  return Drawer(setting, tokens, seed, number).draw();
}

std::vector<SoakSize> soak_sizes(const CheckSetting& setting) {
  const int k = setting.shape.top_k, experts = setting.shape.experts;
  const auto in_slots = [&](int slots) {  // half of them filled on the average
    return SoakSize{std::max(1, slots * setting.experts / (2 * k)), slots};
  };
  return {{std::max(1, std::min(48, kPairsAlone / k)), 0},
          {kPairsAlone / k + 200, 0},
          in_slots(std::max(1, std::min(64, kPairsOfRun / experts))),
          in_slots(ceil_div(4 * kPairsOfRun + 1, experts)),
          {kPairsOfCluster / k + 100, 0}};
}

int soak_size_of(int sizes, std::uint64_t seed, int number) {
  Random random(seed, stream_of(number, 1));
  const int rare = static_cast<int>(random.below(64));
  if (rare < 2) return sizes - 1 - rare;
  return static_cast<int>(random.below(static_cast<std::uint64_t>(sizes - 2)));
}

int soak_pool(const LocalShape& shape) {
  constexpr double kMultiplications = 8e9;  // some seconds of eight cores
  const double a_row = 3.0 * shape.hidden * shape.intermediate * shape.experts;
  return static_cast<int>(std::clamp(kMultiplications / a_row, 8.0, 256.0));
}

OutputError soak_error(const SoakTable& table, const SoakLoad& load, const std::vector<int>& map,
                       const std::uint16_t* output) {
  const auto d = static_cast<std::size_t>(table.hidden);
  const std::size_t k = load.ids.size() / static_cast<std::size_t>(load.tokens);
  std::vector<float> want(d);
  Sum sum;
  for (std::size_t t = 0; t < static_cast<std::size_t>(load.tokens); ++t) {
    const std::uint16_t* got = output + t * d;
    bool any = false;
    for (std::size_t j = 0; j < k; ++j) {
      const int e = local_of(load.ids[t * k + j], map);
      if (e < 0) continue;
      if (!any) std::fill(want.begin(), want.end(), 0.0f);
      any = true;
      const std::uint16_t* row = table.row(e, static_cast<int>(t));
      const float gate = load.gates[t * k + j];
      for (std::size_t i = 0; i < d; ++i) want[i] += gate * from_bf16(row[i]);
    }
    if (!any) {
      if (!std::all_of(got, got + d, [](std::uint16_t x) { return (x & 0x7fff) == 0; }))
        return {kWrong, kWrong};
      continue;
    }
    sum.add(want, got);
  }
  return sum.error();
}

std::vector<int> soak_counts(const SoakLoad& load, const std::vector<int>& map, int experts) {
  std::vector<int> counts(static_cast<std::size_t>(experts), 0);
  for (const int id : load.ids)
    if (const int e = local_of(id, map); e >= 0) ++counts[static_cast<std::size_t>(e)];
  return counts;
}

OutputError soak_slots_error(const SoakTable& table, const std::vector<int>& counts, int slots,
                             const std::uint16_t* output, std::uint16_t poison) {
  Sum sum;
  const auto d = static_cast<std::size_t>(table.hidden);
  std::vector<float> want(d);
  for (std::size_t e = 0; e < counts.size(); ++e)
    for (int s = 0; s < slots; ++s, output += d) {
      if (s >= counts[e]) {
        if (!std::all_of(output, output + d, [&](std::uint16_t x) { return x == poison; }))
          return {kWrong, kWrong};
        continue;
      }
      const std::uint16_t* row = table.row(static_cast<int>(e), s);
      for (std::size_t i = 0; i < d; ++i) want[i] = from_bf16(row[i]);
      sum.add(want, output);
    }
  return sum.error();
}

int most_local_pairs(const SoakLoad& load, const std::vector<int>& map) {
  const std::size_t k = load.ids.size() / static_cast<std::size_t>(load.tokens);
  int most = 0;
  for (std::size_t t = 0; t < load.ids.size(); t += k) {
    int pairs = 0;
    for (std::size_t j = 0; j < k; ++j) pairs += local_of(load.ids[t + j], map) >= 0;
    most = std::max(most, pairs);
  }
  return most;
}

}  // namespace ramp
