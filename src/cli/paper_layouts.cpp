// SPDX-License-Identifier: Apache-2.0
#include "cli/paper_layouts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <iterator>

#include "base/error.hpp"
#include "cli/gpu_options.hpp"
#include "lab/measurements.hpp"
#include "problem/catalog.hpp"
#include "problem/layout.hpp"
#include "problem/sample.hpp"
#include "problem/trace_file.hpp"

namespace ramp::cli {
namespace {

constexpr std::string_view kGenerated = "generated: ";
constexpr std::string_view kScoredOn = "; scored on ";

// 128 of "every128"; 0 for anything else.
int number_behind(std::string_view word, std::string_view text) {
  int number = 0;
  if (!text.starts_with(word)) return 0;
  const auto [end, error] =
      std::from_chars(text.data() + word.size(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

// "ep8+every128+replicas4" into flags; false for the name of somebody's placement file.
bool read_layout_name(const std::string& name, CampaignFlags& flags) {
  const std::vector<std::string> parts = split_list(name, '+');
  flags.layout = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i] == "balanced") {
      flags.placement.placement = "balanced";
    } else if (const int period = number_behind("every", parts[i]); period > 0) {
      flags.placement.placement = fmt::format("every-{}", period);
    } else if (const int replicas = number_behind("replicas", parts[i]); replicas > 0) {
      flags.placement.replicas = replicas;
      if (flags.placement.placement.empty()) flags.placement.placement = "balanced";
    } else {
      return false;
    }
  }
  return true;
}

// What test passes were of, where it was other traffic.
std::string read_scored_on(const std::string& text, CampaignFlags& flags, TraceFolder& traces) {
  char rates[256] = "";
  int end = 0;
  double pass_ms = 0;
  if (std::sscanf(text.c_str(), "open loops of %255s requests/s, %lf ms a pass%n", rates, &pass_ms,
                  &end) == 2 &&
      static_cast<std::size_t>(end) == text.size()) {
    flags.test_traffic.rates = rates;
    flags.test_traffic.pass_ms = pass_ms;
    return "";
  }
  flags.test_traffic.trace = traces.path_of(text);
  return flags.test_traffic.trace.empty() ? "it is scored on " + text + ", which is not here" : "";
}

std::string read_routing(const std::string& label, CampaignFlags& flags, TraceFolder& traces) {
  const std::size_t scored = label.find(kScoredOn);
  const std::string learned = label.substr(0, scored);
  if (learned.starts_with(kGenerated)) {
    const std::size_t seed = learned.rfind(", seed ");
    if (seed == std::string::npos) return "its routing says no seed";
    flags.generate = "seed=" + learned.substr(seed + 7);
  } else {
    flags.trace = traces.path_of(learned);
    if (flags.trace.empty()) return "its trace is not here (" + learned + ")";
  }
  return scored == std::string::npos
             ? ""
             : read_scored_on(label.substr(scored + kScoredOn.size()), flags, traces);
}

void read_passes(const MeasuredSpace& space, CampaignFlags& flags) {
  const auto count = [&](Role role) {
    return static_cast<int>(
        std::count_if(space.passes.begin(), space.passes.end(),
                      [role](const MeasuredPass& pass) { return pass.role == role; }));
  };
  flags.train = count(Role::kTrain);
  flags.test = count(Role::kTest);
  flags.uniform = count(Role::kUniform) / static_cast<int>(std::size(kVllmBatchSizes));
  constexpr std::string_view kDomain = "domain ";
  if (const std::string held_out = held_out_of(space); held_out.starts_with(kDomain))
    flags.held_out = held_out.substr(kDomain.size());
}

void read_options(const std::string& text, CampaignOptions& options) {
  CampaignOptions read = options;
  unsigned long long seed = 0;
  if (std::sscanf(text.c_str(), "seed %llu, anchors %d, margin %lf, random share %lf, rounds %d",
                  &seed, &read.plan.anchors, &read.plan.margin, &read.plan.random_share,
                  &read.rounds) != 5)
    return;
  read.plan.seed = seed;
  options = read;
}

}  // namespace

std::string TraceFolder::path_of(const std::string& label) {
  namespace fs = std::filesystem;
  if (!is_read_) {
    is_read_ = true;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
      if (entry.path().extension() != ".rtrace") continue;
      try {
        paths_.emplace_back(routing_label(read_trace(entry.path()).trace.info),
                            entry.path().string());
      } catch (const Error&) {
        continue;  // a damaged trace is no match, and the layout says that none is here
      }
    }
  }
  for (const auto& [known, path] : paths_)
    if (known == label) return path;
  return "";
}

PaperLayout layout_like(const MeasuredFile& file, TraceFolder& traces) {
  const Provenance& p = file.space.provenance;
  PaperLayout out;
  out.like = &file;
  out.layout_name = p.layout;
  out.routing = p.routing;
  out.flags.model.name = p.model;
  out.flags.output = file.name();
  if (!find_model_or_null(p.model)) {
    out.why_not = "the catalog has no model '" + p.model + "'";
    return out;
  }
  if (!read_layout_name(p.layout, out.flags)) {
    out.why_not = "its placement came out of a file";
    return out;
  }
  out.why_not = read_routing(p.routing, out.flags, traces);
  read_passes(file.space, out.flags);
  read_options(load_campaign_record(file.path).options, out.flags.options);
  return out;
}

std::vector<PaperLayout> layouts_of_list(const std::string& list,
                                         const std::vector<MeasuredFile>& files,
                                         TraceFolder& traces) {
  std::vector<PaperLayout> out;
  for (const std::string& item : split_list(list)) {
    const std::size_t colon = item.find(':');
    const std::string model = item.substr(0, colon),
                      layout = colon == std::string::npos ? "" : item.substr(colon + 1);
    CampaignFlags flags;
    if (layout.empty() || !find_model_or_null(model) || !read_layout_name(layout, flags))
      throw Error("--layouts", "'" + item + "'",
                  "MODEL:LAYOUT between commas, as olmoe:ep8,olmoe:ep8+balanced,olmoe:tp2",
                  "`ramp catalog` lists the models");
    parse_layout(flags.layout);
    const std::size_t before = out.size();
    for (const MeasuredFile& file : files)
      if (!file.is_imported() && file.space.provenance.model == model &&
          file.space.provenance.layout == layout)
        out.push_back(layout_like(file, traces));
    if (out.size() > before) continue;
    flags.model.name = model;
    flags.generate = "seed=1";
    flags.output = fmt::format("{}-{}.rmeas", model, layout);
    PaperLayout made;
    made.flags = flags;
    made.layout_name = layout;
    out.push_back(made);
  }
  return out;
}

}  // namespace ramp::cli
