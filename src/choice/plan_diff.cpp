// SPDX-License-Identifier: Apache-2.0
#include "choice/plan_diff.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "choice/batch_table.hpp"

namespace ramp {
namespace {

using nlohmann::json;

// The file as pointers and values, so that a field added to the format is compared without a word
// here.
json fields_of(const Plan& plan) {
  json file = json::parse(plan_text(plan));
  for (const char* left_out : {"menu", "batch_table", "identity"}) file.erase(left_out);
  return file.flatten();
}

std::string text_of(const json& fields, const std::string& key) {
  const auto at = fields.find(key);
  if (at == fields.end()) return "";
  return at->is_string() ? at->get<std::string>() : at->dump();
}

void compare_fields(const Plan& a, const Plan& b, PlanDiff& diff) {
  const json fa = fields_of(a), fb = fields_of(b);
  std::set<std::string> keys;
  for (const json* fields : {&fa, &fb})
    for (const auto& item : fields->items()) keys.insert(item.key());
  for (const std::string& key : keys) {
    const std::string va = text_of(fa, key), vb = text_of(fb, key);
    if (va != vb) diff.fields.push_back({key, va, vb});
  }
}

int index_of(const Plan& plan, const std::string& label) {
  const auto at = std::find_if(plan.menu.begin(), plan.menu.end(),
                               [&](const PlanEntry& e) { return e.label == label; });
  return at == plan.menu.end() ? -1 : static_cast<int>(at - plan.menu.begin());
}

bool same_theta(const Theta& a, const Theta& b) {
  return a.fixed == b.fixed && a.wave == b.wave && a.tile == b.tile && a.expert == b.expert;
}

void compare_menus(const Plan& a, const Plan& b, PlanDiff& diff) {
  std::vector<std::string> labels;
  for (const PlanEntry& e : a.menu) labels.push_back(e.label);
  for (const PlanEntry& e : b.menu)
    if (index_of(a, e.label) < 0) labels.push_back(e.label);
  for (const std::string& label : labels) {
    EntryChange change{label, index_of(a, label), index_of(b, label)};
    if (change.a >= 0) change.theta_a = a.menu[change.a].theta;
    if (change.b >= 0) change.theta_b = b.menu[change.b].theta;
    if (change.a >= 0 && change.b >= 0)
      change.other_knobs =
          json::parse(a.menu[change.a].knobs) != json::parse(b.menu[change.b].knobs);
    if (change.a != change.b || change.other_knobs || !same_theta(change.theta_a, change.theta_b))
      diff.entries.push_back(std::move(change));
  }
}

void compare_tables(const Plan& a, const Plan& b, PlanDiff& diff) {
  std::set<int> sizes;
  for (const Plan* plan : {&a, &b})
    for (const PlanTableRow& row : plan->batch_table) sizes.insert(row.tokens);
  const auto label = [](const Plan& plan, int tokens) -> std::string {
    for (const PlanTableRow& row : plan.batch_table)
      if (row.tokens == tokens) return plan.menu[row.entry].label;
    return "";
  };
  for (int tokens : sizes) {
    TableChange change{tokens, label(a, tokens), label(b, tokens)};
    if (change.a != change.b) diff.table.push_back(std::move(change));
  }
}

// Parts for smaller passes: their limits and entries, as text.
std::string smaller_text(const Plan& plan) {
  std::string text;
  for (const SizedPlan& sized : plan.smaller) {
    text += fmt::format("{}up to {} tokens:", text.empty() ? "" : "; ", sized.up_to);
    for (const PlanEntry& entry : sized.plan.menu) {
      const Theta& t = entry.theta;
      text += fmt::format(" {} ({}, {}, {}, {})", entry.label, t.fixed, t.wave, t.tile, t.expert);
    }
  }
  return text.empty() ? "none" : text;
}

void compare_choices(const Plan& a, const Plan& b, const std::vector<std::vector<int>>& loads,
                     PlanDiff& diff) {
  const std::vector<MenuEntry> menu_a = menu_of(a), menu_b = menu_of(b);
  double logs = 0;
  for (const std::vector<int>& load : loads) {
    if (load.size() != static_cast<size_t>(a.shape.experts))
      throw Error("load", fmt::format("{} counts", load.size()),
                  fmt::format("{}, one a local expert of these plans", a.shape.experts),
                  "give the tokens of each expert on one GPU, zeros included");
    const Selection sa = select(load, menu_a), sb = select(load, menu_b);
    LoadChange change{load, sa.entry, sb.entry, sa.predicted_us[sa.entry],
                      sb.predicted_us[sb.entry]};
    logs += std::log(change.us_b / change.us_a);
    const std::string& picked = a.menu[sa.entry].label;
    if (picked == b.menu[sb.entry].label) continue;
    if (const int there = index_of(b, picked); there >= 0)
      change.us_b_of_a = sb.predicted_us[there];
    diff.choices.push_back(std::move(change));
  }
  diff.loads = static_cast<int>(loads.size());
  if (diff.loads) diff.predicted = std::exp(logs / diff.loads);
}

}  // namespace

PlanDiff diff_plans(const Plan& a, const Plan& b, const std::vector<std::vector<int>>& loads) {
  PlanDiff diff;
  compare_fields(a, b, diff);
  if (const std::string ours = smaller_text(a), theirs = smaller_text(b); ours != theirs)
    diff.fields.push_back({"menus for smaller passes", ours, theirs});
  compare_menus(a, b, diff);
  compare_tables(a, b, diff);
  if (a.shape.experts != b.shape.experts)
    diff.not_compared = fmt::format("the layers hold {} and {} experts a GPU: no load fits both",
                                    a.shape.experts, b.shape.experts);
  else
    compare_choices(a, b, loads, diff);
  return diff;
}

std::vector<std::vector<int>> probe_loads(const Plan& plan) {
  // Under TP every GPU gets every pair.
  const int sharing = plan.layout.rfind("tp", 0) == 0 ? 1 : plan.gpus;
  const int experts = plan.shape.experts;
  std::vector<std::vector<int>> loads;
  std::set<std::vector<int>> known;  // a few tokens spread alike, whatever the law
  for (int tokens : kVllmBatchSizes)
    for (double exponent : {0.0, 0.5, 1.0, 2.0}) {
      const long long pairs =
          std::clamp<long long>(std::llround(1.0 * tokens * plan.shape.top_k / sharing), 1,
                                std::min<long long>(kMaxPairs, 1LL * tokens * experts));
      std::vector<double> upto(experts);
      double sum = 0;
      for (int e = 0; e < experts; ++e) upto[e] = sum += std::pow(e + 1.0, -exponent);
      std::vector<int> load(experts);
      long long given = 0;
      for (int e = 0; e < experts; ++e) {  // what the cap holds back goes to the next experts
        const long long due = std::llround(pairs * upto[e] / sum);
        load[e] = static_cast<int>(std::clamp<long long>(due - given, 0, tokens));
        given += load[e];
      }
      std::sort(load.rbegin(), load.rend());
      if (given > 0 && known.insert(load).second) loads.push_back(std::move(load));
    }
  return loads;
}

}  // namespace ramp
