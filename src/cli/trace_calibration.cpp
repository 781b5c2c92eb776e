// SPDX-License-Identifier: Apache-2.0
// `ramp trace calibration`: how well generated routing meets the paper's Tables 6 and 7.
#include <fmt/core.h>

#include <cmath>
#include <memory>

#include "base/error.hpp"
#include "cli/model_options.hpp"
#include "cli/table.hpp"
#include "cli/trace_verbs.hpp"
#include "problem/calibration.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct CalibrationFlags {
  std::string model;
  ScoreOptions options;
  std::string seeds;
  bool measure = false, as_json = false;
};

void run_calibration(CalibrationFlags& flags) {
  if (!flags.seeds.empty()) {
    flags.options.seeds.clear();
    for (const int seed : parse_numbers("--seeds", flags.seeds, 1'000'000))
      flags.options.seeds.push_back(static_cast<std::uint64_t>(seed));
  }
  std::vector<std::string> models;
  if (flags.model.empty())
    for (const Calibration& c : calibrations()) models.push_back(c.model);
  else
    models.push_back(find_calibration(flags.model).model);
  json out = json::array();
  Table table({"<model", "<table", "<column", "generated", "paper", "difference"});
  for (const std::string& model : models) {
    const std::vector<CalibrationScore> scores =
        flags.measure
            ? measure_calibration(find_model(model), find_calibration(model), flags.options)
            : calibration_scores(model);
    bool is_first = true;
    for (const CalibrationScore& score : scores) {
      const bool has_paper = score.paper > 0;
      out.push_back({{"model", model},
                     {"table", score.table},
                     {"column", score.column},
                     {"generated", score.generated},
                     {"paper", has_paper ? json(score.paper) : json(nullptr)}});
      table.add({is_first ? model : "", score.table, score.column,
                 fmt::format("{:.2f}", score.generated),
                 has_paper ? fmt::format("{:.2f}", score.paper) : "-",
                 has_paper ? fmt::format("{:+.2f}", score.generated - score.paper) : ""});
      is_first = false;
    }
  }
  if (flags.as_json) {
    fmt::print("{}\n", dump(out));
    return;
  }
  fmt::print(
      "Most loaded GPU over the mean, median over layers and passes. Table 6: contiguous, passes "
      "of "
      "128 tokens and more;\nTable 7: EP8, 128 to 511 tokens. {}\n{}",
      flags.measure ? "Measured now." : "As measured for this version; --measure does it again.",
      table.text());
}

}  // namespace

void add_trace_calibration(CLI::App& trace) {
  CLI::App* verb = trace.add_subcommand(
      "calibration", "Generated routing held against the imbalance in the paper's Tables 6 and 7");
  auto flags = std::make_shared<CalibrationFlags>();
  verb->add_option("model", flags->model, "one with a calibration; default: all");
  verb->add_flag("--measure", flags->measure, "generate and count again, some seconds a model");
  verb->add_option("--layers", flags->options.layers, "at most so many layers")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  verb->add_option("--passes", flags->options.passes, "passes of each domain, every fourth counted")
      ->check(CLI::Range(33, 100'000))
      ->capture_default_str();
  verb->add_option("--seeds", flags->seeds, "seeds to average over; default 11,12,13");
  verb->add_flag("--json", flags->as_json, "for machines");
  verb->footer(
      "Examples:\n"
      "  ramp trace calibration\n"
      "  ramp trace calibration olmoe --measure --seeds 21,22");
  verb->callback([flags] { run_calibration(*flags); });
}

}  // namespace ramp::cli
