// SPDX-License-Identifier: Apache-2.0
#include "problem/placement_study.hpp"

#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "base/error.hpp"

namespace ramp {
namespace {

class Study {
 public:
  Study(const PassCounts& traffic, const Layout& layout, const StudyOptions& options)
      : traffic_(traffic), layout_(layout), options_(options) {
    const int passes = static_cast<int>(traffic.passes.size());
    place_.resize(passes);
    int longest = 0;
    for (int p = 0; p < passes; ++p) {
      const bool goes_on = p > 0 && traffic.passes[p].session == traffic.passes[p - 1].session;
      place_[p] = goes_on ? place_[p - 1] + 1 : 0;
      longest = std::max(longest, place_[p] + 1);
      if (place_[p] >= options.period) scored_.push_back(p);
    }
    if (scored_.empty())
      throw Error("--every", fmt::format("{} passes", options.period),
                  fmt::format("below the longest session, {} passes", longest),
                  "replay or record more passes, or re-balance more often");
  }

  std::vector<PlacementResult> run() {
    std::set<int> domains;
    for (const PassCounts::Pass& pass : traffic_.passes) domains.insert(pass.domain);
    const bool has_others = domains.size() > 1;
    const std::string every = fmt::format("every {}", options_.period);
    std::vector<PlacementResult> out;
    const auto add = [&](const std::string& name, const auto& layout_of) {
      out.push_back({name, table_of(layout_of)});
    };
    out.push_back({"uniform", uniform_table()});
    add("contiguous", [&](int) { return layout_; });
    if (has_others) add("offline", [&](int p) { return offline(p, balance_); });
    add(every, [&](int p) { return periodic(p, balance_); });
    if (options_.replicas.redundant > 0) {
      const std::string replicas = fmt::format(" + {} replicas", options_.replicas.redundant);
      if (has_others) add("offline" + replicas, [&](int p) { return offline(p, replicate_); });
      add(every + replicas, [&](int p) { return periodic(p, replicate_); });
    }
    return out;
  }

 private:
  using Placer = std::function<Layout(const ExpectedLoads&)>;

  std::vector<BalanceRow> table_of(const std::function<Layout(int)>& layout_of) {
    cache_.clear();
    std::vector<BalancePoint> points;
    for (const int p : scored_) {
      const Layout& placed = cached(p, layout_of);
      for (int layer = 0; layer < traffic_.layers; ++layer) {
        const auto counts = traffic_.of(p, layer);
        points.push_back(balance_point(traffic_.passes[p].tokens,
                                       split_load({counts.begin(), counts.end()}, placed, layer)));
      }
    }
    return balance_table(points);
  }

  // A block of a session has one placement: all its passes ask for it.
  const Layout& cached(int p, const std::function<Layout(int)>& layout_of) {
    const std::pair key(traffic_.passes[p].session, place_[p] / options_.period);
    auto found = cache_.find(key);
    if (found == cache_.end()) found = cache_.emplace(key, layout_of(p)).first;
    return found->second;
  }

  std::vector<BalanceRow> uniform_table() {
    Random random(options_.seed, 300);
    std::vector<BalancePoint> points;
    for (const int p : scored_) {
      const int tokens = traffic_.passes[p].tokens;
      points.push_back(balance_point(
          tokens, split_load(draw_uniform_load(traffic_.experts, traffic_.top_k, tokens, random),
                             layout_)));
    }
    return balance_table(points);
  }

  ExpectedLoads sum_of(int first, int last) const {
    ExpectedLoads loads(traffic_.layers, std::vector<double>(traffic_.experts, 0.0));
    for (int p = first; p < last; ++p)
      for (int layer = 0; layer < traffic_.layers; ++layer) {
        const auto counts = traffic_.of(p, layer);
        for (int e = 0; e < traffic_.experts; ++e) loads[layer][e] += counts[e];
      }
    return loads;
  }

  Layout periodic(int p, const Placer& placer) const {
    const int begin = p - place_[p] % options_.period;
    return placer(sum_of(begin - options_.period, begin));
  }

  Layout offline(int p, const Placer& placer) {
    const int mine = traffic_.passes[p].domain;
    if (shares_.empty())
      for (std::size_t first = 0; first < traffic_.passes.size();) {
        std::size_t last = first;
        const int domain = traffic_.passes[first].domain;
        while (last < traffic_.passes.size() && traffic_.passes[last].domain == domain) ++last;
        add_shares(domain, sum_of(static_cast<int>(first), static_cast<int>(last)));
        first = last;
      }
    ExpectedLoads others(traffic_.layers, std::vector<double>(traffic_.experts, 0.0));
    for (const auto& [domain, loads] : shares_) {
      if (domain == mine) continue;
      for (int layer = 0; layer < traffic_.layers; ++layer) {
        const double total = std::accumulate(loads[layer].begin(), loads[layer].end(), 0.0);
        for (int e = 0; total > 0 && e < traffic_.experts; ++e)
          others[layer][e] += loads[layer][e] / total;
      }
    }
    return placer(others);
  }

  void add_shares(int domain, const ExpectedLoads& more) {
    ExpectedLoads& loads = shares_[domain];
    if (loads.empty()) loads = ExpectedLoads(more.size(), std::vector<double>(traffic_.experts));
    for (std::size_t layer = 0; layer < more.size(); ++layer)
      for (int e = 0; e < traffic_.experts; ++e) loads[layer][e] += more[layer][e];
  }

  const PassCounts& traffic_;
  const Layout& layout_;
  const StudyOptions& options_;
  std::vector<int> place_;                       // of each pass in its session
  std::vector<int> scored_;                      // passes with a period before them
  std::map<int, ExpectedLoads> shares_;          // by domain
  std::map<std::pair<int, int>, Layout> cache_;  // by session and block
  const Placer balance_ = [this](const ExpectedLoads& loads) {
    return with_balanced_placement(layout_, loads);
  };
  const Placer replicate_ = [this](const ExpectedLoads& loads) {
    return with_replicas(layout_, loads, options_.replicas);
  };
};

}  // namespace

std::vector<PlacementResult> study_placements(const PassCounts& traffic, const Layout& layout,
                                              const StudyOptions& options) {
  if (!layout.is_expert_parallel())
    throw Error("--layout", layout.name(), "a layout epN",
                "a tpN layout has every expert on every GPU");
  if (options.period < 1)
    throw Error("--every", fmt::format("{}", options.period), "1 and more", "for example 128");
  return Study(traffic, layout, options).run();
}

}  // namespace ramp
