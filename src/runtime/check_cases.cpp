// SPDX-License-Identifier: Apache-2.0
#include "runtime/check_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/numeric.h"
#include "kernels/prepare/runs.h"
#include "problem/random.hpp"
#include "runtime/trial.hpp"

namespace ramp {
namespace {

// Rows of an expert that leave a tail of 1, of one below and of one above a tile, for every tile
// that is built.
constexpr int kRaggedCounts[] = {9, 17, 33, 41, 49, 65, 7, 1};

// Of an expert, in the cases of rows that stand in slots: more than kHeadRows.
constexpr int kSlots = 70;

class CaseMaker {
 public:
  CaseMaker(const CheckSetting& setting, std::uint64_t seed)
      : setting_(setting), map_(full_map(setting)), seed_(seed), random_(seed, 401) {
    for (int id = 0; id < setting.experts; ++id)
      (map_[static_cast<std::size_t>(id)] >= 0 ? local_ : foreign_).push_back(id);
  }

  // Every token its own k different experts.
  CheckCase uniform(int tokens) {
    CheckCase c = empty(fmt::format("tokens-{}", tokens), tokens);
    std::vector<int> experts(static_cast<std::size_t>(setting_.experts));
    std::iota(experts.begin(), experts.end(), 0);
    for (int t = 0; t < tokens; ++t)
      for (int j = 0; j < k(); ++j) {
        std::swap(experts[static_cast<std::size_t>(j)],
                  experts[static_cast<std::size_t>(j) +
                          random_.below(experts.size() - static_cast<std::size_t>(j))]);
        id(c, t, j) = experts[static_cast<std::size_t>(j)];
      }
    return c;
  }

  // Loads that are given: each pair a token of its own, in mixed order.
  CheckCase counts(const std::string& name, std::span<const int> counts) {
    std::vector<int> experts;
    for (std::size_t e = 0; e < counts.size(); ++e)
      experts.insert(experts.end(), static_cast<std::size_t>(counts[e]), local_[e]);
    random_.shuffle(experts);
    CheckCase c = empty(name, static_cast<int>(experts.size()));
    for (int t = 0; t < c.batch.tokens; ++t)
      id(c, t, static_cast<int>(random_.below(static_cast<std::uint64_t>(k())))) =
          experts[static_cast<std::size_t>(t)];
    return c;
  }

  CheckCase ragged() {
    const std::size_t n = std::min(std::size(kRaggedCounts), local_.size());
    return counts("ragged", {kRaggedCounts, n});
  }

  CheckCase one_expert(int tokens) {
    std::vector<int> load(local_.size(), 0);
    load[load.size() / 2] = tokens;
    return counts(fmt::format("one-expert-{}", tokens), load);
  }

  CheckCase one_token_each() {
    return counts("one-token-each", std::vector<int>(local_.size(), 1));
  }

  // Ids of nobody, of other GPUs, twice the same, and rows without any expert at all.
  CheckCase strange_ids() {
    CheckCase c = uniform(64);
    c.name = "strange-ids";
    for (int t = 0; t < 64; ++t) {
      const int j = static_cast<int>(random_.below(static_cast<std::uint64_t>(k())));
      switch (t % 8) {
        case 0:
          id(c, t, j) = -1;
          break;
        case 1:
          id(c, t, j) = setting_.experts + t;
          break;
        case 2:
          id(c, t, j) = std::numeric_limits<int>::min() + t;
          break;
        case 3:
          id(c, t, j) = std::numeric_limits<int>::max();
          break;
        case 4:
          id(c, t, 0) = id(c, t, k() - 1) = local_[static_cast<std::size_t>(t) % local_.size()];
          break;
        case 5:
          for (int i = 0; i < k(); ++i) id(c, t, i) = -1;
          break;
        case 6:
          if (!foreign_.empty())
            for (int i = 0; i < k(); ++i) id(c, t, i) = foreign_[random_.below(foreign_.size())];
          break;
        default:
          break;
      }
    }
    return c;
  }

  // More pairs than one block selects from, most of them of nobody here, so that the reference has
  // little to do.
  CheckCase many_pairs(int pairs) {
    CheckCase c = empty(fmt::format("pairs-{}", pairs), ceil_div(pairs, k()));
    const auto here = [&] { return local_[random_.below(local_.size())]; };
    for (int t = 0; t < c.batch.tokens; ++t) {
      int& one = id(c, t, static_cast<int>(random_.below(static_cast<std::uint64_t>(k()))));
      if (t % 8 == 3) one = here();
      if (t % 64 == 5) one = setting_.experts + t;
      if (t % 64 == 6) one = -1;
      if (t % 64 == 0)
        for (int j = 0; j < k(); ++j) id(c, t, j) = here();
    }
    return c;
  }

  CheckCase nan_gate() {
    CheckCase c = uniform(64);
    c.name = "nan-gate";
    for (const int t : {3, 40}) {
      id(c, t, 0) = local_[0];  // of this GPU, or nobody would see it
      c.batch.gates[at(t, 0)] = std::nanf("");
    }
    return c;
  }

  CheckCase zero_rows() {
    CheckCase c = uniform(64);
    c.name = "zero-rows";
    const auto d = static_cast<std::size_t>(setting_.shape.hidden);
    for (std::size_t t = 0; t < 64; t += 2)  // whole rows, and single groups of others
      std::fill_n(c.batch.hidden.begin() + static_cast<std::ptrdiff_t>(t * d),
                  t % 4 ? kScaleGroup : d, std::uint16_t{0});
    return c;
  }

  CheckCase ready() {
    const std::size_t n = std::min(std::size(kRaggedCounts), local_.size());
    std::vector<int> load(kRaggedCounts, kRaggedCounts + n);
    load.resize(local_.size(), 0);
    if (load.size() > 3) load[2] = 0;
    return ready("ready-counts", load);
  }

  CheckCase ready_many(int rows) {
    std::vector<int> load(local_.size(), 0);
    for (int r = 0; r < rows; ++r) ++load[random_.below(load.size())];
    return ready(fmt::format("ready-{}", rows), load);
  }

  // The same rows quantised by the sender, with scales that are powers of two.
  CheckCase in_e4m3(CheckCase c, bool by_column) {
    c.name += by_column ? "-e4m3-by-column" : "-e4m3";
    const auto tokens = static_cast<std::size_t>(c.batch.tokens),
               groups = static_cast<std::size_t>(setting_.shape.hidden / kScaleGroup);
    for (std::size_t g = 0; g < tokens * groups; ++g) {
      const std::uint16_t* x = &c.batch.hidden[g * kScaleGroup];
      float amax = 0;
      for (int i = 0; i < kScaleGroup; ++i) amax = std::fmax(amax, std::fabs(from_bf16(x[i])));
      const bool nobody = std::isnan(from_bf16(x[0]));
      const float scale = nobody ? std::nanf("") : std::exp2(std::ceil(std::log2(amax / 448)));
      c.batch.hidden_scale.push_back(scale);
      for (int i = 0; i < kScaleGroup; ++i)
        c.batch.hidden_q.push_back(nobody ? 0x7f : to_e4m3(from_bf16(x[i]) / scale));
    }
    c.batch.hidden.clear();
    c.scales = c.batch.hidden_scale;
    if (!by_column) return c;
    // As for a tensor map of the tokens' columns: of an expert, or of all, one group behind the
    // other.
    const std::size_t height = c.slots > 0 ? static_cast<std::size_t>(c.slots) : tokens;
    c.scale_strides = {static_cast<long long>(height * groups), 1, static_cast<long long>(height)};
    for (std::size_t t = 0; t < tokens; ++t)
      for (std::size_t g = 0; g < groups; ++g)
        c.scales[t / height * height * groups + g * height + t % height] =
            c.batch.hidden_scale[t * groups + g];
    return c;
  }

  // Counts of any kind; each expert's rows stand in places of its own.
  CheckCase in_slots(const std::string& name, int slots, std::vector<int> load) {
    CheckCase c;
    c.name = name;
    c.slots = slots;
    load.resize(local_.size(), 0);
    c.ready_counts = load;
    c.batch.tokens = static_cast<int>(load.size()) * slots;
    c.batch.expert_map.resize(load.size());
    std::iota(c.batch.expert_map.begin(), c.batch.expert_map.end(), 0);
    fill(c, 1);
    const auto d = static_cast<std::size_t>(setting_.shape.hidden);
    for (std::size_t e = 0; e < load.size(); ++e)
      for (int s = 0; s < slots; ++s) {
        const bool filled = s < load[e];
        c.batch.ids.push_back(filled ? static_cast<int>(e) : -1);
        if (!filled)
          std::fill_n(
              c.batch.hidden.begin() + static_cast<std::ptrdiff_t>((c.batch.ids.size() - 1) * d), d,
              std::uint16_t{0xffff});
      }
    return c;
  }
  // Empty, ragged, full, and counts that no slots can hold.
  CheckCase in_slots(int slots) {
    std::vector<int> load{slots + 1000, -3, 17, 0, slots, 1, slots - 1, 9};
    return in_slots("slots", slots,
                    {load.begin(), load.begin() + static_cast<std::ptrdiff_t>(
                                                      std::min(load.size(), local_.size()))});
  }
  CheckCase in_few_slots_of(int slots) {
    std::vector<int> load;
    for (std::size_t e = 0; e < local_.size(); ++e)
      load.push_back(e % 5 ? 0 : static_cast<int>(random_.below(4)));
    return in_slots("slots-few", slots, load);
  }

 private:
  CheckCase ready(const std::string& name, const std::vector<int>& load) {
    CheckCase c;
    c.name = name;
    for (std::size_t e = 0; e < load.size(); ++e)
      c.batch.ids.insert(c.batch.ids.end(), static_cast<std::size_t>(load[e]), static_cast<int>(e));
    c.ready_counts = load;
    c.batch.tokens = static_cast<int>(c.batch.ids.size());
    c.batch.expert_map.resize(load.size());
    std::iota(c.batch.expert_map.begin(), c.batch.expert_map.end(), 0);
    fill(c, 1);
    return c;
  }

  int k() const { return setting_.shape.top_k; }
  std::size_t at(int t, int j) const { return static_cast<std::size_t>(t * k() + j); }
  int& id(CheckCase& c, int t, int j) { return c.batch.ids[at(t, j)]; }

  // No expert anywhere, or experts of other GPUs.
  CheckCase empty(const std::string& name, int tokens) {
    CheckCase c;
    c.name = name;
    c.batch.tokens = tokens;
    c.batch.ids.assign(static_cast<std::size_t>(tokens * k()), -1);
    if (!foreign_.empty())
      for (int& i : c.batch.ids) i = foreign_[random_.below(foreign_.size())];
    c.batch.expert_map = map_;
    fill(c, k());
    return c;
  }

  void fill(CheckCase& c, int top_k) {
    c.batch.hidden = random_rows(c.batch.tokens, setting_.shape.hidden, seed_ * 64 + ++drawn_);
    c.batch.gates = random_gates(c.batch.tokens, top_k, seed_ * 64 + drawn_);
  }

  const CheckSetting& setting_;
  std::vector<int> map_, local_, foreign_;
  std::uint64_t seed_;
  Random random_;
  std::uint64_t drawn_ = 0;
};

void quantise(const CheckSetting& setting, CheckCase& c) {
  if (!c.batch.hidden_q.empty()) {
    c.rows_q = c.batch.hidden_q, c.rows_scale = c.batch.hidden_scale;
    return;
  }
  const auto groups = static_cast<std::size_t>(setting.shape.hidden / kScaleGroup);
  const std::size_t all = static_cast<std::size_t>(c.batch.tokens) * groups;
  c.rows_q.resize(all * kScaleGroup);
  c.rows_scale.resize(all);
  for (std::size_t g = 0; g < all; ++g) {
    float amax = 0;
    for (std::size_t i = g * kScaleGroup; i < (g + 1) * kScaleGroup; ++i)
      amax = std::fmax(amax, std::fabs(from_bf16(c.batch.hidden[i])));
    c.rows_scale[g] = group_scale(amax);
    for (std::size_t i = g * kScaleGroup; i < (g + 1) * kScaleGroup; ++i)
      c.rows_q[i] = to_e4m3(quantise_divide(from_bf16(c.batch.hidden[i]), c.rows_scale[g]));
  }
}

}  // namespace

std::vector<CheckSetting> check_settings(bool small) {
  if (small) return {{"small", {3, 2, 256, 384}, 12, 3, {}}};
  std::vector<CheckSetting> all = {
      {"qwen3-like", {8, 4, 2048, 768}, 32, 8, {}},
      {"half-slice", {4, 4, 1024, 1408}, 16, 0, {}},  // h = 1408: the last 512 columns half empty
      {"d-3584", {4, 2, 3584, 384}, 8, 4, {}},
      {"d-7168", {4, 4, 7168, 256}, 16, 12, {}},
      {"odd-blocks", {3, 2, 640, 128}, 3, 0, {}},  // h below a slice, d an odd number of blocks
      {"many-experts", {160, 8, 256, 256}, 160, 0, {}, true},  // more than blocks can own
      {"many-slices", {8, 2, 512, 2048}, 8, 0, {}},  // few experts, most of the time not owned
  };
  CheckSetting mapped{"expert-map", {6, 4, 1024, 512}, 32, 0, std::vector<int>(32, -1)};
  for (int local = 0; local < 6; ++local)  // scattered, and not in order
    mapped.expert_map[static_cast<std::size_t>((11 + 7 * local) % 32)] = local;
  all.push_back(mapped);
  return all;
}

CheckSetting setting_of(const LocalShape& shape) {
  CheckSetting setting{"yours", shape, 0, 0, {}};
  setting.shape.experts = std::min(shape.experts, 4);
  setting.shape.top_k = std::min(shape.top_k, 4);
  setting.experts = std::max(2 * setting.shape.experts, setting.shape.top_k);
  return setting;
}

CheckSetting cheap_setting_of(const LocalShape& shape, double most) {
  CheckSetting setting = setting_of(shape);
  int pairs = 0;
  for (int e = 0; e < setting.shape.experts; ++e)
    pairs += kRaggedCounts[static_cast<std::size_t>(e) % std::size(kRaggedCounts)];
  const double a_column = 3.0 * shape.intermediate * pairs;
  const int columns = static_cast<int>(std::min<double>(shape.hidden, most / a_column));
  setting.shape.hidden = std::max(4, columns / kScaleGroup) * kScaleGroup;
  setting.shape.hidden = std::min(setting.shape.hidden, shape.hidden);
  return setting;
}

std::vector<int> full_map(const CheckSetting& setting) {
  if (!setting.expert_map.empty()) return setting.expert_map;
  std::vector<int> map(static_cast<std::size_t>(setting.experts), -1);
  for (int e = 0; e < setting.shape.experts; ++e)
    map[static_cast<std::size_t>(setting.first_expert + e)] = e;
  return map;
}

std::vector<CheckCase> check_cases(const CheckSetting& setting, Cases which, std::uint64_t seed) {
  CaseMaker make(setting, seed);
  if (which == Cases::kRagged) return {make.ragged()};
  std::vector<CheckCase> cases;
  if (which == Cases::kOrdinary) {
    cases.push_back(make.uniform(48));
    cases.push_back(make.ragged());
    if (setting.many_pairs) {  // so many that each of the blocks has more than it takes at once
      cases.push_back(make.many_pairs(60 * 1000));
      cases.push_back(make.ready_many(4 * kPairsOfRun + 200));
      const int slots = ceil_div(4 * kPairsOfRun + 200, setting.shape.experts);
      cases.push_back(make.in_few_slots_of(slots));
      cases.push_back(make.in_e4m3(make.in_few_slots_of(slots), true));
    }
    return cases;
  }
  for (const int tokens : {0, 1, 7, 64, 300}) cases.push_back(make.uniform(tokens));
  cases.push_back(make.ragged());
  cases.push_back(make.one_expert(300));
  cases.push_back(make.one_token_each());
  cases.push_back(make.strange_ids());
  cases.push_back(make.nan_gate());
  cases.push_back(make.zero_rows());
  cases.push_back(make.ready());
  cases.push_back(make.in_e4m3(make.uniform(48), false));
  cases.push_back(make.in_e4m3(make.ready(), false));
  cases.push_back(make.in_e4m3(make.ready(), true));
  cases.push_back(make.in_slots(kSlots));
  cases.push_back(make.in_e4m3(make.in_slots(kSlots), false));
  cases.push_back(make.in_e4m3(make.in_slots(kSlots), true));
  const auto all = static_cast<std::size_t>(setting.shape.experts);
  cases.push_back(
      make.in_e4m3(make.in_slots("slots-full", kSlots, std::vector<int>(all, kSlots)), true));
  cases.push_back(make.in_e4m3(make.in_slots("slots-empty", kSlots, {}), true));
  cases.push_back(make.many_pairs(7 * kPairsAlone));
  return cases;
}

void answer(const CheckSetting& setting, const HostWeights& weights, CheckCase& one, int threads) {
  LocalShape shape = setting.shape;
  if (!one.ready_counts.empty()) shape.top_k = 1;
  one.want = reference_on_threads(shape, weights, one.batch, threads);
  one.grouped = one.ready_counts.empty() ? group_ids(one.batch.ids, one.batch.gates, shape.top_k,
                                                     one.batch.expert_map, shape.experts)
                : one.slots > 0          ? group_slots(one.ready_counts, one.slots, one.batch.gates)
                                         : group_counts(one.ready_counts, one.batch.gates);
  if (one.slots > 0) {  // NaN stands for what nobody may write: outputs are poisoned with it
    const auto d = static_cast<std::size_t>(shape.hidden);
    for (std::size_t t = 0; t < one.batch.ids.size(); ++t)
      if (one.batch.ids[t] < 0)
        std::fill_n(one.want.begin() + static_cast<std::ptrdiff_t>(t * d), d,
                    std::numeric_limits<double>::quiet_NaN());
  }
  std::vector<int> pairs(static_cast<std::size_t>(one.batch.tokens), 0);
  for (const Row& row : one.grouped.rows)
    one.most_pairs = std::max(one.most_pairs, ++pairs[static_cast<std::size_t>(row.token)]);
  quantise(setting, one);
}

}  // namespace ramp
