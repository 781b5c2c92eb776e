// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_diff.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "base/error.hpp"
#include "choice/plan_diff.hpp"
#include "cli/load_input.hpp"
#include "cli/measured_input.hpp"
#include "cli/table.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string a, b, load, counts_file, measurements;
  int show = 12;
  bool allow_edited = false, as_json = false;
};

struct Loads {
  std::string what;  // a sentence's end
  std::vector<std::vector<int>> loads;
};

Loads loads_of(const Options& options, const Plan& plan) {
  const int given =
      !options.load.empty() + !options.counts_file.empty() + !options.measurements.empty();
  if (given > 1)
    throw Error("--load, --counts-file, --measurements", fmt::format("{} of them", given), "one",
                "say where the loads come from");
  if (!options.measurements.empty())
    return {"that were measured in " + options.measurements,
            read_measured(options.measurements).loads};
  if (given == 1) return {"given", read_loads(options.load, options.counts_file)};
  return {
      "made up: vLLM's batch sizes, spread evenly and by Zipf's law; --measurements takes "
      "recorded ones",
      probe_loads(plan)};
}

std::string or_none(const std::string& text) { return text.empty() ? "none" : text; }

// For a column: long texts cut, long fractions rounded; --json has them whole.
std::string short_value(const std::string& text) {
  constexpr size_t kWidth = 44;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.size() > 8 && end == text.c_str() + text.size()) return fmt::format("{:.4g}", number);
  return text.size() > kWidth ? text.substr(0, kWidth) + "..." : or_none(text);
}

// As plans write them: the shortest decimals that read back as the same 32-bit float.
json shortest(float value) {
  return std::isfinite(value) ? json::parse(fmt::format("{}", value)) : json(nullptr);
}

json theta_json(const Theta& t) {
  return {{"fixed_us", shortest(t.fixed)},
          {"wave_us", shortest(t.wave)},
          {"tile_us", shortest(t.tile)},
          {"expert_us", shortest(t.expert)}};
}

json diff_json(const Plan& a, const Plan& b, const PlanDiff& diff) {
  json out = {{"a", a.identity},          {"b", b.identity},
              {"same", diff.same()},      {"fields", json::array()},
              {"entries", json::array()}, {"batch_table", json::array()},
              {"loads", diff.loads},      {"predicted_b_over_a", number_or_null(diff.predicted)},
              {"choices", json::array()}};
  if (!diff.not_compared.empty()) out["not_compared"] = diff.not_compared;
  for (const FieldChange& c : diff.fields)
    out["fields"].push_back({{"field", c.field}, {"a", c.a}, {"b", c.b}});
  for (const EntryChange& c : diff.entries) {
    json row = {{"label", c.label}, {"a", nullptr}, {"b", nullptr}, {"other_knobs", c.other_knobs}};
    if (c.a >= 0) row["a"] = {{"entry", c.a}, {"theta", theta_json(c.theta_a)}};
    if (c.b >= 0) row["b"] = {{"entry", c.b}, {"theta", theta_json(c.theta_b)}};
    out["entries"].push_back(std::move(row));
  }
  for (const TableChange& c : diff.table)
    out["batch_table"].push_back({{"tokens", c.tokens}, {"a", c.a}, {"b", c.b}});
  for (const LoadChange& c : diff.choices)
    out["choices"].push_back({{"load", c.load},
                              {"a", a.menu[c.entry_a].label},
                              {"b", b.menu[c.entry_b].label},
                              {"a_us", shortest(c.us_a)},
                              {"b_us", shortest(c.us_b)},
                              {"a_choice_by_b_us", shortest(c.us_b_of_a)}});
  return out;
}

void print_fields(const PlanDiff& diff) {
  if (diff.fields.empty()) {
    fmt::print("Origin and promises: the same.\n");
    return;
  }
  fmt::print("Origin and promises:\n");
  Table table({"<", "<a", "<b"});
  for (const FieldChange& c : diff.fields)
    table.add({c.field.substr(1), short_value(c.a), short_value(c.b)});
  fmt::print("{}", table.text());
}

std::string from_to(double a, double b, int digits) {
  return a == b ? fmt::format("{:.{}f}", a, digits)
                : fmt::format("{:.{}f} -> {:.{}f}", a, digits, b, digits);
}

void print_entries(const PlanDiff& diff) {
  if (diff.entries.empty()) {
    fmt::print("\nMenu and coefficients: the same.\n");
    return;
  }
  fmt::print("\nMenu (us):\n");
  Table table({"<", "<configuration", "<entry", "<fixed", "<a wave", "<a tile", "<an expert"});
  for (const EntryChange& c : diff.entries) {
    const bool both = c.a >= 0 && c.b >= 0;
    const Theta &from = c.a >= 0 ? c.theta_a : c.theta_b, &to = c.b >= 0 ? c.theta_b : c.theta_a;
    table.add({both       ? (c.other_knobs ? "other knobs" : "changed")
               : c.a >= 0 ? "removed"
                          : "added",
               c.label,
               both && c.a != c.b ? fmt::format("{} -> {}", c.a, c.b)
                                  : std::to_string(std::max(c.a, c.b)),
               from_to(from.fixed, to.fixed, 2), from_to(from.wave, to.wave, 3),
               from_to(from.tile, to.tile, 4), from_to(from.expert, to.expert, 3)});
  }
  fmt::print("{}", table.text());
}

void print_table_changes(const PlanDiff& diff) {
  if (diff.table.empty()) return;
  fmt::print("\nBatch-size table:\n");
  Table table({"tokens", "<a", "<b"});
  for (const TableChange& c : diff.table)
    table.add({std::to_string(c.tokens), or_none(c.a), or_none(c.b)});
  fmt::print("{}", table.text());
}

void print_choices(const Plan& a, const Plan& b, const PlanDiff& diff, const std::string& what,
                   int show) {
  if (!diff.not_compared.empty()) {
    fmt::print("\nChoices: not compared, {}.\n", diff.not_compared);
    return;
  }
  fmt::print("\nChoices differ on {} of {} loads ({}).\n", diff.choices.size(), diff.loads, what);
  fmt::print("Over all of them b predicts {:.3f}x a's time (geometric mean).\n", diff.predicted);
  if (diff.choices.empty()) return;
  std::vector<LoadChange> sorted = diff.choices;  // where they differ most comes first
  std::stable_sort(sorted.begin(), sorted.end(), [](const LoadChange& x, const LoadChange& y) {
    return std::abs(std::log(x.us_b / x.us_a)) > std::abs(std::log(y.us_b / y.us_a));
  });
  if (sorted.size() > static_cast<size_t>(show)) sorted.resize(show);
  Table table({"<tokens of each expert", "<a runs", "us", "<b runs", "us", "b/a", "a's by b"});
  for (const LoadChange& c : sorted) {
    std::string load = fmt::format("{}", fmt::join(c.load, ","));
    if (load.size() > 40) load = load.substr(0, load.rfind(',', 36)) + ",...";
    table.add({load, a.menu[c.entry_a].label, fmt::format("{:.2f}", c.us_a),
               b.menu[c.entry_b].label, fmt::format("{:.2f}", c.us_b),
               fmt::format("{:+.1f} %", 100 * (c.us_b / c.us_a - 1)),
               std::isnan(c.us_b_of_a) ? "-" : fmt::format("{:.2f}", c.us_b_of_a)});
  }
  fmt::print("\n{}", table.text());
  if (diff.choices.size() > static_cast<size_t>(show))
    fmt::print("  ... and {} more: --show {}\n", diff.choices.size() - show, diff.choices.size());
  fmt::print(
      "us: predicted by the plan that chooses; a's by b: what b's model says of a's choice.\n");
}

void run(const Options& options) {
  const auto open = [&](const std::string& path) {
    Plan plan = read_plan(path, {.allow_edited = options.allow_edited});
    for (const std::string& warning : plan.warnings)
      fmt::print(stderr, "warning: {}: {}\n", path, warning);
    return plan;
  };
  const Plan a = open(options.a), b = open(options.b);
  const Loads loads = loads_of(options, a);
  const PlanDiff diff = diff_plans(a, b, loads.loads);
  if (options.as_json) {
    fmt::print("{}\n", diff_json(a, b, diff).dump(2, ' ', false, json::error_handler_t::replace));
    return;
  }
  fmt::print("a  {}  {}\nb  {}  {}\n\n", options.a, a.identity, options.b, b.identity);
  if (diff.same()) {
    fmt::print("The plans are the same.\n");
    return;
  }
  print_fields(diff);
  print_entries(diff);
  print_table_changes(diff);
  print_choices(a, b, diff, loads.what, options.show);
}

}  // namespace

void add_plan_diff(CLI::App& plan_verb) {
  CLI::App* part = plan_verb.add_subcommand(
      "diff", "What differs between two plans: origin, menu, model, choices");
  auto options = std::make_shared<Options>();
  part->add_option("a", options->a, "a plan file")->required();
  part->add_option("b", options->b, "another one")->required();
  part->add_option("--load", options->load,
                   "compare on this load: tokens of each local expert, as 8,8,0,30");
  part->add_option("--counts-file", options->counts_file, "the same, one load a line");
  part->add_option("--measurements", options->measurements, "compare on the loads of this .rmeas");
  part->add_option("--show", options->show, "lines of loads to print")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  part->add_flag("--allow-edited", options->allow_edited,
                 "read them though an identity does not match its content");
  part->add_flag("--json", options->as_json, "for machines: every load");
  part->footer(
      "Examples:\n"
      "  ramp plan diff olmoe_ep8.plan.json tuned_anew.plan.json\n"
      "  ramp plan diff a.plan.json b.plan.json --measurements olmoe_ep8.rmeas --json");
  part->callback([options] { run(*options); });
}

}  // namespace ramp::cli
