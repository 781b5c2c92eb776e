// SPDX-License-Identifier: Apache-2.0
// `ramp trace arrivals`: when requests came and how long they were.
#include <fmt/core.h>

#include <memory>

#include "base/statistics.hpp"
#include "base/whole_file.hpp"
#include "cli/table.hpp"
#include "cli/trace_verbs.hpp"
#include "problem/arrivals.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct ArrivalFlags {
  std::string input, output, source, licence;
  bool as_json = false;
};

constexpr double kQuantiles[] = {0.1, 0.5, 0.9, 0.99};

void run_arrivals(const ArrivalFlags& flags) {
  ArrivalTrace trace = read_arrivals(flags.input);
  if (!flags.source.empty()) trace.source = flags.source;
  if (!flags.licence.empty()) trace.licence = flags.licence;
  if (!flags.output.empty()) write_whole_file(flags.output, arrivals_csv(trace));
  std::vector<double> prompt, output, gap;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    prompt.push_back(trace.requests[i].prompt);
    output.push_back(trace.requests[i].output);
    if (i > 0) gap.push_back(trace.requests[i].time_s - trace.requests[i - 1].time_s);
  }
  const struct {
    const char* name;
    const std::vector<double>& values;
    int digits;
  } rows[] = {{"prompt tokens", prompt, 0}, {"output tokens", output, 0}, {"gap, s", gap, 3}};
  if (flags.as_json) {
    json out = {{"name", trace.name},
                {"format", trace.format},
                {"source", trace.source},
                {"licence", trace.licence},
                {"empty_rows", trace.empty},
                {"requests", trace.requests.size()},
                {"seconds", trace.duration_s()},
                {"rate", trace.rate()}};
    for (const auto& row : rows)
      for (const double q : kQuantiles)
        if (!row.values.empty())
          out["quantiles"][row.name][fmt::format("{}", q)] = quantile(row.values, q);
    if (!flags.output.empty()) out["file"] = flags.output;
    fmt::print("{}\n", dump(out));
    return;
  }
  fmt::print("{}: {} requests in {:.1f} minutes, {:.2f} a second ({} format)\n", flags.input,
             trace.requests.size(), trace.duration_s() / 60, trace.rate(), trace.format);
  if (!trace.source.empty()) fmt::print("  source: {}\n", trace.source);
  if (!trace.licence.empty()) fmt::print("  licence: {}\n", trace.licence);
  if (trace.empty > 0) fmt::print("  left out: {} rows without a token\n", trace.empty);
  Table table({"<", "10 %", "median", "90 %", "99 %"});
  for (const auto& row : rows) {
    if (row.values.empty()) continue;
    std::vector<std::string> cells = {row.name};
    for (const double q : kQuantiles)
      cells.push_back(fmt::format("{:.{}f}", quantile(row.values, q), row.digits));
    table.add(std::move(cells));
  }
  fmt::print("{}", table.text());
  if (!flags.output.empty()) fmt::print("written: {}\n", flags.output);
}

}  // namespace

void add_trace_arrivals(CLI::App& trace) {
  CLI::App* verb = trace.add_subcommand(
      "arrivals", "Look at an arrival trace (Azure, Mooncake, ...), or turn it into ramp's CSV");
  auto flags = std::make_shared<ArrivalFlags>();
  verb->add_option("input", flags->input,
                   "CSV or JSON lines, .gz too; docs/traces.md lists the columns")
      ->required();
  verb->add_option("-o,--output", flags->output,
                   "the .csv to write: t_s,prompt_tokens,output_tokens");
  verb->add_option("--source", flags->source, "where it comes from: repository @ commit, path");
  verb->add_option("--licence", flags->licence, "its licence");
  verb->add_flag("--json", flags->as_json, "for machines");
  verb->footer(
      "Examples:\n"
      "  ramp trace arrivals data/arrivals/azure2023_conv.csv.gz\n"
      "  ramp trace arrivals conversation_trace.jsonl -o mooncake.csv --licence Apache-2.0");
  verb->callback([flags] { run_arrivals(*flags); });
}

}  // namespace ramp::cli
