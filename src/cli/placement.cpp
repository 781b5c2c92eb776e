// SPDX-License-Identifier: Apache-2.0
// `ramp placement compare|make`: what placements do to the imbalance, and placements to use.
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/whole_file.hpp"
#include "cli/loads_table.hpp"
#include "cli/model_options.hpp"
#include "cli/placement_options.hpp"
#include "cli/table.hpp"
#include "cli/trace_verbs.hpp"
#include "cli/verbs.hpp"
#include "problem/calibration.hpp"
#include "problem/counts_import.hpp"
#include "problem/placement_study.hpp"
#include "problem/trace_file.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct CompareFlags {
  std::string trace, layouts = "ep8";
  PlacementOptions placement;
  ReplayOptions replay;
  int every = 128, passes = 384;
  bool as_json = false;
};

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

const BalanceRow* row_of(const std::vector<BalanceRow>& table, int low, bool is_open) {
  for (const BalanceRow& row : table)
    if (row.low == low && (row.high >= (1 << 30)) == is_open) return &row;
  return nullptr;
}

std::string cell(const BalanceRow* row, double BalanceRow::*field) {
  return row ? fmt::format("{:.2f}", row->*field) : "-";
}

void run_compare(const CompareFlags& flags) {
  const ReadTrace read = read_trace(flags.trace);
  if (!read.health.whole()) fmt::print(stderr, "note: {}\n", read.health.text());
  const RoutingTrace& trace = read.trace;
  if (flags.passes < 1 || flags.passes > 100'000)
    throw Error("--passes", fmt::format("{}", flags.passes), "1 .. 100,000", "for example 384");
  const bool is_recorded = trace.passes() > 0;
  const PassCounts traffic =
      is_recorded ? recorded_counts(trace) : replayed_counts(trace, flags.replay, flags.passes);
  const std::string how =
      is_recorded ? fmt::format("{} recorded passes", trace.passes())
                  : fmt::format("each domain replayed in a closed loop of {} requests, {} passes",
                                flags.replay.concurrency, flags.passes);
  const std::string routing = routing_label(trace.info), note = calibration_note(routing);
  StudyOptions study;
  study.period = flags.every;
  study.replicas = flags.placement.replica_options(trace.info.model);
  json out = {{"trace", flags.trace}, {"routing", routing},   {"scores", note},
              {"traffic", how},       {"every", flags.every}, {"layouts", json::array()}};
  Table table(
      {"<layout", "<placement", "loads", "128-511", "90 %", "128 and more", "90 %", "worst"});
  for (const std::string& name : split_list(flags.layouts)) {
    const Layout layout = parse_layout(name);
    json results = json::array();
    bool is_first = true;
    for (const PlacementResult& result : study_placements(traffic, layout, study)) {
      const BalanceRow* mid = row_of(result.table, 128, false);
      const BalanceRow* large = row_of(result.table, 128, true);
      table.add({is_first ? layout.name() : "", result.placement,
                 large ? std::to_string(large->points) : "0", cell(mid, &BalanceRow::median),
                 cell(mid, &BalanceRow::p90), cell(large, &BalanceRow::median),
                 cell(large, &BalanceRow::p90), cell(large, &BalanceRow::worst)});
      json rows = json::array();
      for (const BalanceRow& row : result.table) rows.push_back(balance_json(row));
      results.push_back({{"placement", result.placement}, {"imbalance", rows}});
      is_first = false;
    }
    out["layouts"].push_back({{"layout", layout.name()}, {"placements", results}});
  }
  if (flags.as_json) {
    fmt::print("{}\n", dump(out));
    return;
  }
  fmt::print("{}: {}\n{}; passes after the first {} of a session\n", flags.trace, routing, how,
             flags.every);
  if (!note.empty()) fmt::print("{}\n", note);
  fmt::print("Most loaded GPU over the mean by tokens of a pass, median and 90 %:\n{}",
             table.text());
}

void add_compare(CLI::App& placement) {
  CLI::App* verb = placement.add_subcommand(
      "compare", "The same passes under each placement, as in the paper's Table 7");
  auto flags = std::make_shared<CompareFlags>();
  verb->add_option("trace", flags->trace, "a .rtrace")->required();
  verb->add_option("--layout", flags->layouts, "layouts epN, as ep8,ep16,ep32")
      ->capture_default_str();
  verb->add_option("--every", flags->every, "passes from one re-balancing to the next")
      ->capture_default_str();
  verb->add_option("--replicas", flags->placement.replicas,
                   "rows with so many redundant slots too, as EPLB places them")
      ->capture_default_str();
  verb->add_option("--nodes", flags->placement.nodes, "nodes that keep a group of experts together")
      ->capture_default_str();
  flags->replay.concurrency = 160;
  verb->add_option("--concurrency", flags->replay.concurrency,
                   "requests: closed loop, in each domain")
      ->capture_default_str();
  verb->add_option("--passes", flags->passes, "requests: passes to replay of each domain")
      ->capture_default_str();
  verb->add_option("--seed", flags->replay.seed, "another seed, another order")
      ->capture_default_str();
  verb->add_flag("--json", flags->as_json, "for machines: the whole imbalance tables");
  verb->footer(
      "Example:\n"
      "  ramp placement compare data/traces/dsv2lite_esft.rtrace --layout ep8,ep16 --replicas 16");
  verb->callback([flags] { run_compare(*flags); });
}

struct MakeFlags {
  std::string input, output, layout = "ep8", held_out, model;
  PlacementOptions placement;
  bool as_json = false;
};

// Loads that add up exactly as they are expected to, over all layers.
double expected_imbalance(const ExpectedLoads& loads, const Layout& layout) {
  double sum = 0;
  for (std::size_t layer = 0; layer < loads.size(); ++layer) {
    double total = 0;
    for (const double load : loads[layer]) total += load;
    // Scaled to whole tokens, finely enough for two digits.
    ExpertLoad counts;
    for (const double load : loads[layer])
      counts.push_back(total > 0 ? static_cast<int>(1e7 * load / total) : 0);
    sum += imbalance_of(split_load(counts, layout, static_cast<int>(layer)));
  }
  return sum / static_cast<double>(loads.size());
}

void run_make(const MakeFlags& flags) {
  ExpectedLoads loads;
  std::string from, model = flags.model;
  if (flags.input.ends_with(".rtrace") || flags.input.ends_with(".part")) {
    const ReadTrace read = read_trace(flags.input);
    loads = expected_loads(read.trace, flags.held_out);
    from = routing_label(read.trace.info);
    if (model.empty()) model = read.trace.info.model;
  } else {
    if (!flags.held_out.empty())
      throw Error("--held-out", flags.held_out, "with a .rtrace", "counts know no domains");
    const ExpertCounts counts = read_counts(flags.input);
    loads = expected_loads(counts);
    from = fmt::format("counts: {}, {} steps summed", counts.format, counts.steps);
  }
  const Layout contiguous = parse_layout(flags.layout);
  const ReplicaOptions options = flags.placement.replica_options(model);
  const Layout placed = options.redundant > 0 ? with_replicas(contiguous, loads, options)
                                              : with_balanced_placement(contiguous, loads);
  write_whole_file(flags.output, placement_json(placed));
  const double before = expected_imbalance(loads, contiguous),
               after = expected_imbalance(loads, placed);
  if (flags.as_json) {
    fmt::print("{}\n", dump({{"file", flags.output},
                             {"layout", placed.name()},
                             {"from", from},
                             {"layers", loads.size()},
                             {"experts", loads.front().size()},
                             {"replicas", options.redundant},
                             {"expected_imbalance", {{"contiguous", before}, {"placed", after}}}}));
    return;
  }
  fmt::print("{} -> {}: {}, {} layers of {} experts\n  {}\n", flags.input, flags.output,
             placed.name(), loads.size(), loads.front().size(), from);
  fmt::print(
      "  imbalance if loads come as expected (mean of layers): contiguous {:.3f}, placed {:.3f};\n"
      "  single passes are less even: ramp placement compare, ramp loads --placement {}\n",
      before, after, flags.output);
}

void add_make(CLI::App& placement) {
  CLI::App* verb = placement.add_subcommand(
      "make", "A placement from a trace or from counts: balanced, or with EPLB's replicas");
  auto flags = std::make_shared<MakeFlags>();
  verb->add_option("input", flags->input, "a .rtrace, or counts (.npy, .npz, .json)")->required();
  verb->add_option("-o,--output", flags->output, "the JSON to write")->required();
  verb->add_option("--layout", flags->layout, "epN")->capture_default_str();
  verb->add_option("--replicas", flags->placement.replicas, "redundant slots for hot experts")
      ->capture_default_str();
  verb->add_option("--nodes", flags->placement.nodes, "nodes that keep a group of experts together")
      ->capture_default_str();
  verb->add_option("--model", flags->model, "of counts: whose groups of experts nodes keep");
  verb->add_option("--held-out", flags->held_out, "leave this domain out");
  verb->add_flag("--json", flags->as_json, "for machines");
  verb->footer(
      "Examples:\n"
      "  ramp placement make data/traces/dsv2lite_esft.rtrace --layout ep8 -o ep8.json\n"
      "  ramp placement make eplb_counts.npz --model deepseek-v3 --layout ep32 --replicas 32 \\\n"
      "    --nodes 4 -o ep32.json");
  verb->callback([flags] { run_make(*flags); });
}

}  // namespace

void add_placement(CLI::App& app) {
  CLI::App* verb =
      app.add_subcommand("placement", "Which GPU holds which expert: compare placements, make one");
  verb->require_subcommand(1);
  add_compare(*verb);
  add_make(*verb);
}

}  // namespace ramp::cli
