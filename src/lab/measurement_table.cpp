// SPDX-License-Identifier: Apache-2.0
#include "lab/measurement_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "base/error.hpp"
#include "lab/measurement_file.hpp"

namespace ramp {
namespace {

constexpr std::size_t kMaxLine = 1 << 20;
constexpr std::size_t kMaxConfigs = 20'000;
constexpr std::size_t kMaxCells = 20'000'000;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \r\t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \r\t") - first + 1);
}

// Double quotes only matter between commas: a tab never stands inside a field.
std::vector<std::string> split(std::string_view line, char separator) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (separator == ',' && c == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"')
        fields.back() += line[++i];
      else
        quoted = !quoted;
    } else if (c == separator && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  for (std::string& field : fields) field = std::string(trimmed(field));
  return fields;
}

template <class Number>
std::vector<Number> numbers(const std::string& text, const std::string& field,
                            const std::string& allowed) {
  std::vector<Number> values;
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    if (*at == ' ' || *at == ';') {
      ++at;
      continue;
    }
    Number value{};
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || !(value >= 0) || (next != end && *next != ' ' && *next != ';'))
      throw Error(field, text.substr(0, 60), allowed, "mend the line");
    values.push_back(value);
    at = next;
  }
  if (values.empty()) throw Error(field, "nothing", allowed, "mend the line");
  return values;
}

struct Table {
  std::map<std::string, std::string> notes;
  std::map<std::string, std::size_t> column;
  char separator = '\t';
};

void read_header(Table& table, std::string_view line, const std::string& at) {
  table.separator = line.find('\t') != std::string_view::npos ? '\t' : ',';
  const std::vector<std::string> names = split(line, table.separator);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!table.column.emplace(names[i], i).second)
      throw Error(at, "two columns " + names[i], "one of each", "");
  for (const char* needed : {"config", "grid", "load", "us"})
    if (!table.column.count(needed))
      throw Error(at, fmt::format("the columns {}", fmt::join(names, ", ")),
                  "config, grid, load and us, and maybe occupancy and knobs",
                  fmt::format("add the column {}", needed));
}

// The empty space that the cells of the table go into.
MeasuredSpace space_of(const Table& table, const std::string& name, const MeasuredSpace* like) {
  MeasuredSpace space;
  const auto noted = [&table](const char* key) {
    const auto it = table.notes.find(key);
    return it == table.notes.end() ? std::string() : it->second;
  };
  if (like) {
    space = *like;
    space.candidates.clear();
    space.samples.clear();
  }
  for (const ProvenanceField& field : provenance_fields()) {
    std::string& value = space.provenance.*field.member;
    const std::string key = field.key;
    const bool of_traffic = key == "model" || key == "layout" || key == "routing";
    if (like && of_traffic) continue;
    value = noted(field.key);
    if (value.empty()) value = "unknown";
  }
  space.provenance.how =
      fmt::format("imported from {}: {}", name.substr(name.rfind('/') + 1), space.provenance.how);
  if (like) return space;
  for (const ShapeField& field : shape_fields()) {
    const std::string key = field.key;
    if (noted(field.key).empty() && key == "experts") continue;  // as many as the loads have
    const std::vector<int> value =
        numbers<int>(noted(field.key), fmt::format("{}: # {}", name, key), "a number above 0");
    space.shape.*field.member = value.front();
  }
  return space;
}

}  // namespace

std::string table_text(const MeasuredSpace& space) {
  std::string text = "# ramp measurements\n";
  for (const ProvenanceField& field : provenance_fields()) {
    std::string value = space.provenance.*field.member;
    std::replace(value.begin(), value.end(), '\n', ' ');
    text += fmt::format("# {}: {}\n", field.key, value);
  }
  for (const ShapeField& field : shape_fields())
    text += fmt::format("# {}: {}\n", field.key, space.shape.*field.member);
  text += "config\tgrid\toccupancy\tload\tus\tknobs\n";
  for (std::size_t c = 0; c < space.candidates.size(); ++c)
    for (std::size_t l = 0; l < space.loads.size(); ++l) {
      if (space.samples[c][l].empty()) continue;
      const Candidate& candidate = space.candidates[c];
      text += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\n", candidate.label, grid_text(candidate.grid),
                          candidate.occupancy, fmt::join(space.loads[l], " "),
                          fmt::join(space.samples[c][l], " "), candidate.knobs);
    }
  return text;
}

MeasuredSpace parse_table(const std::string& text, const std::string& name,
                          const MeasuredSpace* like) {
  Table table;
  MeasuredSpace space;
  std::map<std::vector<int>, std::size_t> load_place;
  std::map<std::string, std::size_t> config_place;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<float>> cells;
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);  // tabs are fields
    at = end + 1;
    const std::string where = fmt::format("{}:{}", name, ++number);
    if (line.size() > kMaxLine)
      throw Error(where, fmt::format("a line of {} bytes", line.size()),
                  fmt::format("up to {}", kMaxLine), "");
    if (line.empty()) continue;
    if (line.front() == '#') {
      const std::size_t colon = line.find(':');
      if (colon != std::string_view::npos)
        table.notes[std::string(trimmed(line.substr(1, colon - 1)))] =
            std::string(trimmed(line.substr(colon + 1)));
      continue;
    }
    if (table.column.empty()) {
      read_header(table, line, where);
      space = space_of(table, name, like);
      for (std::size_t l = 0; l < space.loads.size(); ++l) load_place[space.loads[l]] = l;
      continue;
    }
    const std::vector<std::string> fields = split(line, table.separator);
    const auto field = [&](const char* column) {
      const auto it = table.column.find(column);
      return it == table.column.end() || it->second >= fields.size() ? std::string()
                                                                     : fields[it->second];
    };
    Candidate candidate{.label = field("config"),
                        .knobs = field("knobs"),
                        .grid = parse_grid(field("grid"), where),
                        .occupancy = field("occupancy")};
    if (candidate.label.empty()) throw Error(where, "no config", "a name for it", "mend the line");
    const auto [config, new_config] =
        config_place.emplace(candidate.label, space.candidates.size());
    if (new_config)
      space.candidates.push_back(candidate);
    else if (grid_text(space.candidates[config->second].grid) != grid_text(candidate.grid))
      throw Error(
          where, fmt::format("{} with the grid {}", candidate.label, grid_text(candidate.grid)),
          fmt::format("its grid of before, {}", grid_text(space.candidates[config->second].grid)),
          "give the other one another name");
    if (space.candidates.size() > kMaxConfigs)
      throw Error(where, "too many configurations", fmt::format("up to {}", kMaxConfigs), "");

    std::vector<int> load = numbers<int>(field("load"), where, "counts from 0 with blanks between");
    std::sort(load.rbegin(), load.rend());
    if (space.shape.experts == 0) space.shape.experts = static_cast<int>(load.size());
    if (static_cast<int>(load.size()) != space.shape.experts)
      throw Error(where, fmt::format("{} counts", load.size()),
                  fmt::format("{}, one for each local expert", space.shape.experts),
                  "write the zeros too");
    const auto [place, new_load] = load_place.emplace(load, space.loads.size());
    if (new_load) space.loads.push_back(load);
    std::vector<float>& us = cells[{config->second, place->second}];
    for (float value :
         numbers<float>(field("us"), where, "microseconds above 0, with blanks between"))
      us.push_back(value);
  }
  if (table.column.empty())
    throw Error(name, "no header", "a line with the columns config, grid, load and us",
                "see docs/measurements-format.md");
  if (cells.empty()) throw Error(name, "no measurements", "at least one line below the header", "");
  if (space.candidates.size() * space.loads.size() > kMaxCells)
    throw Error(
        name,
        fmt::format("{} configurations x {} loads", space.candidates.size(), space.loads.size()),
        fmt::format("a product up to {}", kMaxCells), "");
  space.samples.assign(space.candidates.size(),
                       std::vector<std::vector<float>>(space.loads.size()));
  for (auto& [cell, us] : cells) space.samples[cell.first][cell.second] = std::move(us);
  if (!like)
    for (std::size_t l = 0; l < space.loads.size(); ++l) {
      long long pairs = 0;
      for (int n : space.loads[l]) pairs += n;
      const int tokens = static_cast<int>(std::min<long long>(
          (pairs + space.shape.top_k - 1) / std::max(space.shape.top_k, 1), 1 << 30));
      space.passes.push_back(
          {.tokens = tokens, .domain = "table", .load_of_gpu = {static_cast<int>(l)}});
    }
  check_space(space);
  return space;
}

}  // namespace ramp
