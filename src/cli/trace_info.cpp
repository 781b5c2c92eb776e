// SPDX-License-Identifier: Apache-2.0
// `ramp trace info`: what a .rtrace holds.
#include <fmt/core.h>

#include <memory>

#include "cli/table.hpp"
#include "cli/trace_verbs.hpp"
#include "problem/calibration.hpp"
#include "problem/trace_file.hpp"
#include "problem/trace_format.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

// "1..26" for a run, else the list.
std::string layers_text(const std::vector<int>& layers) {
  if (layers.size() > 1 && layers.back() - layers.front() + 1 == static_cast<int>(layers.size()))
    return fmt::format("{}..{}", layers.front(), layers.back());
  std::string text;
  for (std::size_t i = 0; i < layers.size() && i < 12; ++i)
    text += fmt::format("{}{}", i ? "," : "", layers[i]);
  return layers.size() > 12 ? text + ",..." : text;
}

struct DomainCount {
  int requests = 0;
  std::int64_t tokens = 0, prompt = 0;
};

std::vector<DomainCount> count_domains(const RoutingTrace& trace) {
  std::vector<DomainCount> counts(trace.domains.size());
  for (const TraceRequest& request : trace.requests) {
    DomainCount& count = counts[request.domain];
    ++count.requests;
    count.tokens += request.tokens;
    count.prompt += request.prompt;
  }
  return counts;
}

void run_info(const std::string& path, bool as_json) {
  const ReadTrace read = read_trace(path);
  if (as_json) {
    json out = describe(read.trace);
    const TraceHealth& h = read.health;
    out["health"] = {{"whole", h.whole()},
                     {"closed", h.closed},
                     {"file_bytes", h.file_bytes},
                     {"lost_bytes", h.lost_bytes},
                     {"lost_tokens", h.lost_tokens},
                     {"chunks", h.chunks},
                     {"damaged_chunks", h.damaged_chunks},
                     {"reason", h.reason}};
    fmt::print("{}\n", dump(out));
    return;
  }
  fmt::print("{}\n", path);
  print_description(read.trace);
  fmt::print("  file: {}\n", read.health.text());
}

}  // namespace

std::string dump(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace);
}

json describe(const RoutingTrace& trace) {
  json out = json::parse(trace_format::pack_info(trace.info));
  out["tokens"] = trace.tokens();
  out["requests"] = trace.requests.size();
  out["passes"] = trace.passes();
  out["domains"] = json::array();
  if (trace.info.kind == TraceKind::kGenerated)
    out["scores"] = calibration_note(routing_label(trace.info));
  const auto counts = count_domains(trace);
  for (std::size_t d = 0; d < counts.size(); ++d)
    out["domains"].push_back({{"name", trace.domains[d]},
                              {"requests", counts[d].requests},
                              {"tokens", counts[d].tokens},
                              {"prompt_tokens", counts[d].prompt}});
  return out;
}

void print_description(const RoutingTrace& trace) {
  const TraceInfo& info = trace.info;
  fmt::print("  {}: E = {}, k = {}, {} layers ({}), {} routing, {} tokens ({})\n",
             info.model.empty() ? "unnamed model" : info.model, info.experts, info.top_k,
             info.layers.size(), layers_text(info.layers), text_of(info.kind), trace.tokens(),
             text_of(info.phase));
  fmt::print("  {} requests, {} recorded passes, {} expert ids\n", trace.requests.size(),
             trace.passes(), text_of(info.id_space));
  if (info.kind == TraceKind::kGenerated)
    fmt::print("  calibration {}, seed {}\n", info.calibration, info.seed);
  if (const std::string note = calibration_note(routing_label(info)); !note.empty())
    fmt::print("  {}\n", note);
  if (!info.source.empty()) fmt::print("  source: {}\n", info.source);
  if (!info.licence.empty()) fmt::print("  licence: {}\n", info.licence);
  if (!info.made.empty()) fmt::print("  made: {}\n", info.made);
  if (!trace.requests.empty()) {
    Table table({"<domain", "requests", "tokens", "of them prompt"});
    const auto counts = count_domains(trace);
    for (std::size_t d = 0; d < counts.size(); ++d)
      table.add({trace.domains[d].empty() ? "(none)" : trace.domains[d],
                 std::to_string(counts[d].requests), std::to_string(counts[d].tokens),
                 std::to_string(counts[d].prompt)});
    fmt::print("{}", table.text());
  }
}

void add_trace_info(CLI::App& trace) {
  CLI::App* verb = trace.add_subcommand("info", "What a .rtrace holds, and whether it is whole");
  auto path = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  verb->add_option("trace", *path, "a .rtrace, or the .rtrace.part that a crash left")->required();
  verb->add_flag("--json", *as_json, "for machines");
  verb->footer("Example:\n  ramp trace info data/traces/dsv2lite_esft.rtrace");
  verb->callback([path, as_json] { run_info(*path, *as_json); });
}

}  // namespace ramp::cli
