// SPDX-License-Identifier: Apache-2.0
// A run's page: whole layers against the weight stream and the floor, and against other people's
// layers, where records of them are given.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lab/page/run_findings.hpp"
#include "lab/paper/records.hpp"
#include "problem/text_file.hpp"

namespace ramp {
namespace {

using nlohmann::json;

constexpr std::uintmax_t kMostBytes = 64u << 20;  // of a file of records

// Fields of somebody's file: of another kind than asked for, as if they were not there.
std::string word(const json& row, const char* field) {
  const auto at = row.find(field);
  return at != row.end() && at->is_string() ? at->get<std::string>() : "";
}
double number(const json& row, const char* field) {
  const auto at = row.find(field);
  return at != row.end() && at->is_number() ? at->get<double>() : Number::kUnknown;
}
double positive(double value) {
  return value > 0 && std::isfinite(value) ? value : Number::kUnknown;
}

std::vector<json> rows_of(const json& document, const RunFindings& found) {
  std::vector<json> rows;
  for (const json& row : document["rows"])
    if (word(row, "model") == found.space.provenance.model &&
        word(row, "layout") == found.asked.file.base_layout() && number(row, "tokens") > 0 &&
        (word(row, "mode").empty() || word(row, "mode") == "fast") &&
        (word(row, "rank").empty() || word(row, "rank") == "heaviest"))
      rows.push_back(row);
  return rows;
}

// Times by load and tokens, one a name.
using Point = std::map<std::string, double>;
using Points = std::map<std::string, std::map<double, Point>>;

Panel panel_of(const std::string& load, const std::map<double, Point>& points,
               const std::vector<std::string>& names) {
  Panel panel{load + " routing", "tokens of the pass", "us", true, true};
  for (const std::string& name : names) {
    Series series{name, Series::Kind::kLine, {}, {}, {}, {}};
    for (const auto& [tokens, point] : points)
      if (const auto at = point.find(name); at != point.end() && !std::isnan(at->second))
        series.x.push_back(tokens), series.y.push_back(at->second);
    if (!series.x.empty()) panel.series.push_back(std::move(series));
  }
  return panel;
}

constexpr const char* kPlan = "layer, as the plan serves";
constexpr const char* kBest = "layer, best of a dozen";
constexpr const char* kKernel = "expert kernel";
constexpr const char* kStream = "weight stream, measured";
constexpr const char* kFloor = "floor, formula";

std::string provenance_of(const std::vector<json>& rows) {
  std::set<std::string> lines;
  for (const json& row : rows)
    lines.insert(
        fmt::format("{}, {}, commit {}", word(row, "gpu"), word(row, "date"), word(row, "commit")));
  return fmt::format("Measured on {}.", fmt::join(lines, "; "));
}

// Names with a time anywhere, in the order given.
std::vector<std::string> present_in(const Points& points, const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& name : names) {
    bool is_there = false;
    for (const auto& [load, of_load] : points)
      for (const auto& [tokens, point] : of_load)
        is_there |= point.count(name) && !std::isnan(point.at(name));
    if (is_there) out.push_back(name);
  }
  return out;
}

// A row a load and size: the times, and `ratio` of them.
template <class Ratio>
Report points_report(const std::string& name, const std::string& title, const Points& points,
                     const std::vector<std::string>& names, const std::string& ratio_name,
                     const Ratio& ratio) {
  Report report{.name = name, .title = title};
  report.columns = {{"routing"}, {"tokens", Unit::kCount}};
  for (const std::string& column : names) report.columns.push_back({column + ", us", Unit::kUs});
  report.columns.push_back({ratio_name, Unit::kTimes});
  std::vector<Panel> panels;
  for (const auto& [load, of_load] : points) {
    for (const auto& [tokens, point] : of_load) {
      ReportRow row{{text_cell(load), number_cell(tokens)}, "", ""};
      for (const std::string& column : names)
        row.cells.push_back(number_cell(point.count(column) ? point.at(column) : Number::kUnknown));
      row.cells.push_back(number_cell(ratio(point)));
      report.rows.push_back(std::move(row));
    }
    panels.push_back(panel_of(load, of_load, names));
  }
  report.plots.push_back({"", std::move(panels)});
  return report;
}

double at_or_unknown(const Point& point, const std::string& name) {
  const auto found = point.find(name);
  return found == point.end() ? Number::kUnknown : found->second;
}

Report floor_report(const std::vector<json>& rows) {
  Points points;
  for (const json& row : rows) {
    const bool is_plan = word(row, "policy") == "plan";
    if (!is_plan && word(row, "policy") != "best") continue;
    Point& point = points[word(row, "load")][number(row, "tokens")];
    point[is_plan ? kPlan : kBest] = positive(number(row, "us"));
    const std::pair<const char*, const char*> parts[] = {
        {kKernel, "ffn_us"}, {kStream, "stream_us"}, {kFloor, "floor_us"}};
    for (const auto& [name, field] : parts)
      if (is_plan || !point.count(name)) point[name] = positive(number(row, field));
  }
  Report report =
      points_report("layer", "Whole layers above what the memory and the products allow", points,
                    present_in(points, {kPlan, kBest, kKernel, kStream, kFloor}),
                    "over the larger of both", [](const Point& p) {
                      const double ours = p.count(kPlan) ? p.at(kPlan) : at_or_unknown(p, kBest);
                      return ours / std::fmax(at_or_unknown(p, kStream), at_or_unknown(p, kFloor));
                    });
  report.notes = {
      provenance_of(rows),
      "One captured graph, cold weights, the GPU with the most pairs, everything from ids and BF16 "
      "rows to BF16 output. Stream: a kernel that only reads the active experts' weights, in the "
      "same run. Floor: the larger of reading them at 4.58 TB/s and the products at 1.9 PFLOP/s. "
      "The last column is the plan's layer, or the best one, over the larger of the two."};
  return report;
}

Report peers_report(const json& document, const std::vector<json>& rows, Number* over_peers,
                    const EvaluateOptions& options) {
  constexpr const char* kOurs = "ramp";
  Points points;
  std::set<std::string> peers;
  for (const json& row : rows) {
    Point& point = points[word(row, "load")][number(row, "tokens")];
    const bool is_layer = row.contains("peers");
    const json others = row.value(is_layer ? "peers" : "us", json::object());
    if (is_layer) point[kOurs] = positive(number(row, "us"));
    point[kFloor] = positive(number(row, "floor_us"));
    if (!others.is_object()) continue;
    for (const auto& [name, us] : others.items()) {
      if (!us.is_number()) continue;
      point[name] = positive(us.get<double>());
      if (name != kOurs) peers.insert(name);
    }
  }
  std::vector<std::string> names = {kOurs};
  names.insert(names.end(), peers.begin(), peers.end());
  names.push_back(kFloor);
  std::vector<double> logs;
  int slower = 0;
  const auto over = [&](const Point& point) {
    double best = Number::kUnknown;
    for (const std::string& name : peers) best = std::fmin(best, at_or_unknown(point, name));
    const double ratio = best / at_or_unknown(point, kOurs);
    if (!std::isnan(ratio)) logs.push_back(std::log(ratio)), slower += ratio < 1;
    return ratio;
  };
  Report report = points_report("peers", "Whole layers beside other people's", points,
                                present_in(points, names), "best of them over ramp", over);
  report.notes = {provenance_of(rows)};
  if (!logs.empty()) {
    const Interval interval = bootstrap_exp_mean(logs, options.resamples, options.seed);
    *over_peers = {exp_mean(logs), interval.low, interval.high};
    report.notes.push_back(fmt::format(
        "The fastest of the others over ramp: {} in the geometric mean over {} points; ramp is "
        "slower on {} of them.",
        text_of(*over_peers, Unit::kTimes), logs.size(), slower));
  }
  const json conditions = document.value("conditions", json::object());
  if (conditions.is_object() && conditions.contains("versions") &&
      conditions["versions"].is_object()) {
    std::string versions;
    for (const auto& [name, version] : conditions["versions"].items())
      if (version.is_string())
        versions += (versions.empty() ? "" : ", ") + name + " " + version.get<std::string>();
    report.notes.push_back("Versions: " + versions + ".");
  }
  return report;
}

std::string nothing_of(const std::string& path, const RunFindings& found) {
  return fmt::format("{} holds no row of {} on {}: `ramp bench layer {}` measures our layers.",
                     path, found.space.provenance.model, found.asked.file.base_layout(),
                     found.space.provenance.model);
}

}  // namespace

std::optional<PageSection> layers_section(const RunFindings& found, Number* over_peers) {
  const RunRequest& asked = found.asked;
  if (asked.layer.empty() && asked.peers.empty()) return std::nullopt;
  PageSection section{.id = "layers", .title = "Whole layers"};
  section.says = {
      "Above, times are the expert kernel's. Here a layer is timed as it is served, the choice "
      "included."};
  // add(document, its rows of this layer)
  const auto read = [&](const std::string& path, const char* option, const auto& add) {
    if (path.empty()) return;
    const json document = parse_records(read_whole_file(path, option, kMostBytes), option);
    const std::vector<json> rows = rows_of(document, found);
    if (rows.empty())
      section.says.push_back(nothing_of(path, found));
    else
      section.parts.push_back(add(document, rows));
  };
  read(asked.layer, "--layer",
       [](const json&, const std::vector<json>& rows) { return floor_report(rows); });
  read(asked.peers, "--peers", [&](const json& document, const std::vector<json>& rows) {
    return peers_report(document, rows, over_peers, asked.evaluate);
  });
  return section;
}

}  // namespace ramp
