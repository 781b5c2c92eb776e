// SPDX-License-Identifier: Apache-2.0
#include "choice/explain.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "choice/batch_table.hpp"
#include "problem/load.hpp"

namespace ramp {
namespace {

void check_counts(const Plan& plan, std::span<const int> load) {
  if (load.size() != static_cast<size_t>(plan.shape.experts))
    throw Error("load", fmt::format("{} counts", load.size()),
                fmt::format("{}, one a local expert of this plan", plan.shape.experts),
                "give the tokens of each expert on one GPU, zeros included");
  long long pairs = 0;
  for (int n : load) {
    if (n < 0)
      throw Error("load", std::to_string(n), "counts from 0", "give the tokens of each expert");
    pairs += n;
  }
  if (pairs > kMaxPairs)
    throw Error("load", fmt::format("{} token-expert pairs", pairs),
                fmt::format("up to {}", kMaxPairs), "give the load of one forward pass");
}

ExplainedEntry explain_entry(const Plan& plan, int index, std::span<const int> load) {
  const PlanEntry& entry = plan.menu[index];
  ExplainedEntry out;
  out.entry = index;
  out.features = features(entry.grid, load.data(), static_cast<int>(load.size()));
  out.fixed_us = entry.theta.fixed;
  out.waves_us = static_cast<double>(entry.theta.wave) * out.features.waves;
  out.tiles_us = static_cast<double>(entry.theta.tile) * out.features.tiles;
  out.experts_us = static_cast<double>(entry.theta.expert) * out.features.active;
  out.predicted_us = predict_us(entry.theta, out.features);
  return out;
}

// The term in which the winner gains most on the other; where the winner is only less bad, the
// largest difference says so as well.
std::string reason(const Plan& plan, const ExplainedEntry& first, const ExplainedEntry& second) {
  struct Term {
    const char* name;
    double gain_us;
    std::string counts;
  };
  const Features &a = first.features, &b = second.features;
  const Term terms[] = {
      {"fixed cost", second.fixed_us - first.fixed_us, ""},
      {"waves", second.waves_us - first.waves_us,
       fmt::format(" ({} against {})", a.waves, b.waves)},
      {"tiles", second.tiles_us - first.tiles_us,
       fmt::format(" ({} against {})", a.tiles, b.tiles)},
      {"active experts", second.experts_us - first.experts_us, fmt::format(" ({})", a.active)},
  };
  const Term& most = *std::max_element(std::begin(terms), std::end(terms),
                                       [](auto& x, auto& y) { return x.gain_us < y.gain_us; });
  const double lead = second.predicted_us - first.predicted_us;
  if (lead <= 0)
    return fmt::format("{} ties with {}: the entry that comes first in the menu runs",
                       plan.menu[first.entry].label, plan.menu[second.entry].label);
  return fmt::format("{} leads {} by {:.2f} us ({:.1f} %): most of it is {}{}, {:.2f} us less",
                     plan.menu[first.entry].label, plan.menu[second.entry].label, lead,
                     100 * lead / first.predicted_us, most.name, most.counts, most.gain_us);
}

}  // namespace

Explanation explain(const Plan& whole, std::span<const int> load, int tokens) {
  check_plan(whole);
  check_counts(whole, load);
  Explanation out;
  out.load.assign(load.begin(), load.end());
  out.pairs = static_cast<int>(pairs_of(out.load));
  out.tokens = tokens;
  if (tokens <= 0) {
    // Under TP every GPU sees the whole batch; its local experts are then all that the pairs spread
    // over.
    const bool tensor_parallel = whole.layout.rfind("tp", 0) == 0;
    out.tokens_assumed = true;
    const double share =
        static_cast<double>(out.pairs) * (tensor_parallel ? 1 : whole.gpus) / whole.shape.top_k;
    out.tokens = static_cast<int>(std::lround(std::min(share, 1.0 * kMaxPairs)));
  }
  const Plan& plan = plan_for(whole, out.tokens);
  for (int i = 0; i < static_cast<int>(plan.menu.size()); ++i)
    out.ranked.push_back(explain_entry(plan, i, load));
  std::stable_sort(out.ranked.begin(), out.ranked.end(),
                   [](const auto& a, const auto& b) { return a.predicted_us < b.predicted_us; });
  out.because = out.ranked.size() == 1 ? "the menu has one entry"
                                       : reason(plan, out.ranked[0], out.ranked[1]);

  std::vector<int> keys;
  for (const PlanTableRow& row : plan.batch_table) keys.push_back(row.tokens);
  if (!keys.empty()) out.table_entry = plan.batch_table[nearest_key(keys, out.tokens)].entry;
  return out;
}

}  // namespace ramp
