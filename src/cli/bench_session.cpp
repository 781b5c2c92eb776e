// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_session.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/error.hpp"
#include "kernels/ffn/space.hpp"
#include "runtime/default_menu.hpp"
#include "runtime/plan_options.hpp"

namespace ramp::cli {
namespace {

Theta theta_of(const std::string& text) {
  std::vector<float> values;
  for (const std::string& part : split_list(text)) {
    char* end = nullptr;
    values.push_back(std::strtof(part.c_str(), &end));
    if (part.empty() || *end || !std::isfinite(values.back()) || values.back() < 0)
      throw Error("--theta", "'" + text + "'", "four numbers from 0: fixed,wave,tile,expert", "");
  }
  if (values.size() != 4)
    throw Error("--theta", "'" + text + "'", "four numbers: fixed,wave,tile,expert (us)",
                "give --theta once for each label of --menu");
  return {values[0], values[1], values[2], values[3]};
}

int rank_of(const std::string& text) {
  if (text == "heaviest") return kHeaviestRank;
  const std::vector<int> numbers = parse_numbers("--rank", text, 1 << 16);
  if (numbers.size() != 1) throw Error("--rank", text, "heaviest, or one GPU of the layout", "");
  return numbers[0];
}

BenchPolicy policy_in_any_mode(const BenchOptions& o) {
  const std::vector<FfnConfig> menu =
      o.menu.empty() ? default_menu() : configs_of_labels("--menu", o.menu);
  const std::string name = !o.policy.empty()  ? o.policy
                           : !o.plan.empty()  ? "plan"
                           : !o.theta.empty() ? "theta"
                                              : "best";
  if (name == "plan" && o.plan.empty())
    throw Error("--policy plan", "no plan", "--plan FILE", "make one with `ramp tune`");
  if (name == "best") return {name, {menu, {}, 0}, true};
  if (name == "theta") {
    if (o.theta.size() != menu.size())
      throw Error("--theta", fmt::format("{} times", o.theta.size()),
                  fmt::format("{} times, one for each label of --menu", menu.size()), "");
    BenchPolicy policy{name, {menu, {}, -1}, false};
    for (const std::string& text : o.theta) policy.choice.theta.push_back(theta_of(text));
    return policy;
  }
  if (name.starts_with("forced:")) {
    const FfnConfig config = ffn_from_label(name.substr(7));
    if (o.menu.empty()) return {name, {{config}, {}, 0}, false};
    for (std::size_t i = 0; i < menu.size(); ++i)
      if (ffn_label(menu[i]) == ffn_label(config))
        return {name, {menu, {}, static_cast<int>(i)}, false};
    throw Error("--policy", name, "a label of --menu", "");
  }
  if (name != "plan")
    throw Error("--policy", name, "plan, theta, best or forced:LABEL", "see --help");
  return {name, {}, false};  // the menu comes from the plan
}

}  // namespace

BenchPolicy policy_of(const BenchOptions& o) {
  if (!o.mode.empty() && !o.plan.empty())
    throw Error("--mode", o.mode, "nothing beside --plan: the plan says it", "leave it out");
  BenchPolicy policy = policy_in_any_mode(o);
  policy.choice.ordered = o.mode == "ordered";
  if (o.rows != "auto") policy.choice.row_a_pair = o.rows == "pair";
  if (policy.choice.ordered)
    for (const FfnConfig& c : policy.choice.menu)
      if (!runs_ordered(c))
        throw Error("--mode ordered", ffn_label(c), "entries of family f3",
                    "`ramp check --list --family f3` prints them: give some with --menu");
  return policy;
}

std::vector<int> tokens_of(const BenchOptions& o) {
  std::vector<int> tokens = parse_numbers("--tokens", o.tokens, 1 << 17);
  for (const int t : tokens)
    if (t < 1) throw Error("--tokens", "0", "1 and more", "leave it out");
  return tokens;
}

std::string us_text(double us) { return std::isfinite(us) ? fmt::format("{:.2f}", us) : "-"; }

BenchSession::BenchSession(const BenchOptions& o, int most_layers)
    : model(o.model.model()), layout(parse_layout(o.layout)) {
  bench.model = model;
  bench.layout = layout;
  bench.rank = rank_of(o.rank);
  bench.router = o.foreign_router ? Router::kForeign : Router::kTriggers;
  bench.replays = o.replays;
  bench.most_layers = most_layers;
  for (const std::string& load : split_list(o.loads))
    sources.emplace_back(model, layout, load, o.trace, o.seed);
}

void BenchSession::open(int device) {
  gpu = std::make_unique<OpenGpu>(device);
  layers = std::make_unique<LayerBench>(gpu->context, gpu->clocks, *gpu->cache, bench);
}

void take_plan(const BenchOptions& o, const BenchSession& s, BenchPolicy& policy) {
  const Plan plan = read_plan(o.plan);
  PlanUse use;
  use.experts = s.model.shape.experts;
  use.shape = local_shape(s.model.shape, s.layout, 0);
  use.device = s.gpu ? std::optional(s.gpu->context.info()) : std::nullopt;
  policy.smaller.clear();
  for (const auto& [up_to, options] : all_options_from_plan(plan, use)) {
    const BenchChoice choice{options.menu, options.theta, -1, options.ordered};
    if (up_to)
      policy.smaller.push_back({up_to, choice});
    else
      policy.choice = choice;
  }
  if (const std::string stale = plan_staleness(plan); !stale.empty())
    fmt::print(stderr, "note: {}\n", stale);
}

}  // namespace ramp::cli
