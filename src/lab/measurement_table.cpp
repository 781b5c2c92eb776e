// SPDX-License-Identifier: Apache-2.0
#include "lab/measurement_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "lab/measurement_file.hpp"

namespace ramp {
namespace {

constexpr std::size_t kMaxLine = 1 << 20;
constexpr std::size_t kMaxConfigs = 20'000;
constexpr std::size_t kMaxCells = 20'000'000;
constexpr int kMaxTableGpus = 4096;

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
    if (error != std::errc() || !(value >= 0) || std::isinf(static_cast<double>(value)) ||
        (next != end && *next != ' ' && *next != ';'))
      throw Error(field, text.substr(0, 60), allowed, "mend the line");
    values.push_back(value);
    at = next;
  }
  if (values.empty()) throw Error(field, "nothing", allowed, "mend the line");
  return values;
}

constexpr const char* kColumns =
    "config, grid, load and us, and maybe occupancy, knobs, tokens, role, pass, gpu and domain";
constexpr const char* kPassColumns[] = {"tokens", "role", "pass", "gpu", "domain"};
constexpr std::string_view kShipped = "shipped ";  // and the tokens: a note

// "BLOCK_M=64 warps=4" or a JSON object -> a JSON object of whole numbers, truth values and words,
// as plans hold it.
std::string parse_knobs(const std::string& text, const std::string& where) {
  using nlohmann::json;
  // Bytes that are no UTF-8 become a mark instead of an exception.
  const auto text_of = [](const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  json knobs = json::object();
  if (text.empty()) return "";
  const auto refuse = [&](const std::string& what) {
    throw Error(where, "the knobs " + what,
                "KEY=VALUE with blanks between, or a JSON object of numbers, words, true and false",
                "mend the line");
  };
  if (text.front() == '{') {
    knobs = json::parse(text, nullptr, false);
    if (!knobs.is_object()) refuse(text.substr(0, 60));
    for (const auto& [key, value] : knobs.items())
      if (!value.is_number_integer() && !value.is_boolean() && !value.is_string())
        refuse(key + " = " + text_of(value).substr(0, 40));
    return text_of(knobs);
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    if (item.empty()) continue;
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0) refuse(item.substr(0, 60));
    const std::string key = item.substr(0, equals), value = item.substr(equals + 1);
    if (knobs.contains(key)) refuse(key + " twice");
    long long number = 0;
    const auto [next, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc() && next == value.data() + value.size())
      knobs[key] = number;
    else if (value == "true" || value == "false")
      knobs[key] = value == "true";
    else
      knobs[key] = value;
  }
  return text_of(knobs);
}

// One table, line by line.  Everything that a line says is checked where it stands, so that the
// error names the line; what only the whole shows is checked by finish().
class TableReader {
 public:
  TableReader(const std::string& name, const MeasuredSpace* like) : name_(name), like_(like) {}

  void read_line(std::string_view line);
  MeasuredSpace finish();

 private:
  // A pass as it grows: GPUs come on lines of their own.
  struct GrowingPass {
    MeasuredPass pass;
    std::map<int, int> load_of_gpu;
  };

  std::string note(const std::string& key) const {
    const auto it = notes_.find(key);
    return it == notes_.end() ? std::string() : it->second;
  }
  bool has(const char* column) const { return column_.count(column) > 0; }
  std::string field(const char* column) const {
    const auto it = column_.find(column);
    return it == column_.end() || it->second >= fields_.size() ? std::string()
                                                               : fields_[it->second];
  }
  // A whole number of a column, or `missing` where it is blank or not there.
  int whole_field(const char* column, int missing) const;
  void read_note(std::string_view line);
  void read_header(std::string_view line);
  void begin_space();
  std::size_t read_config();
  std::size_t read_load();
  void read_pass(std::size_t load);
  void finish_passes();
  void finish_shipped();

  const std::string name_;
  const MeasuredSpace* like_;
  int number_ = 0;     // of the line
  std::string where_;  // "table.csv:7"
  char separator_ = '\t';
  std::map<std::string, std::string> notes_;
  std::map<std::string, std::size_t> column_;
  std::vector<std::string> fields_;

  MeasuredSpace space_;
  std::optional<int> gpus_;  // where the notes say so
  std::map<std::string, std::size_t> config_place_;
  std::map<std::vector<int>, std::size_t> load_place_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<float>> cells_;
  std::vector<GrowingPass> passes_;
  std::map<std::string, std::size_t> pass_place_;
};

int TableReader::whole_field(const char* column, int missing) const {
  const std::string text = field(column);
  if (text.empty()) return missing;
  const std::vector<int> values =
      numbers<int>(text, fmt::format("{}: {}", where_, column), "one whole number from 0");
  if (values.size() != 1)
    throw Error(fmt::format("{}: {}", where_, column), text, "one whole number from 0",
                "mend the line");
  return values.front();
}

void TableReader::read_note(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  notes_[std::string(trimmed(line.substr(1, colon - 1)))] =
      std::string(trimmed(line.substr(colon + 1)));
}

void TableReader::read_header(std::string_view line) {
  separator_ = line.find('\t') != std::string_view::npos ? '\t' : ',';
  const std::vector<std::string> names = split(line, separator_);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool is_of_passes = std::find(std::begin(kPassColumns), std::end(kPassColumns),
                                        names[i]) != std::end(kPassColumns);
    if (!is_of_passes && names[i] != "config" && names[i] != "grid" && names[i] != "load" &&
        names[i] != "us" && names[i] != "occupancy" && names[i] != "knobs")
      throw Error(where_, "the column " + names[i], kColumns,
                  "leave it out; what belongs to a configuration goes into knobs");
    if (is_of_passes && like_)
      throw Error(where_, "the column " + names[i] + " together with --like",
                  "one of them: both say which passes the loads belong to",
                  "leave the column out, or --like");
    if (!column_.emplace(names[i], i).second)
      throw Error(where_, "two columns " + names[i], "one of each", "");
  }
  for (const char* needed : {"config", "grid", "load", "us"})
    if (!has(needed))
      throw Error(where_, fmt::format("the columns {}", fmt::join(names, ", ")), kColumns,
                  fmt::format("add the column {}", needed));
}

// What the cells of the table go into.
void TableReader::begin_space() {
  if (like_) {
    space_ = *like_;
    space_.candidates.clear();
    space_.samples.clear();
    space_.shipped.clear();
  }
  for (const ProvenanceField& known : provenance_fields()) {
    const std::string key = known.key;
    const bool of_traffic = key == "model" || key == "layout" || key == "routing";
    if (like_ && of_traffic) continue;
    std::string& value = space_.provenance.*known.member;
    value = note(key);
    if (value.empty()) value = "unknown";
  }
  space_.provenance.kernel = note("kernel");
  space_.provenance.how = fmt::format("imported from {}: {}", name_.substr(name_.rfind('/') + 1),
                                      space_.provenance.how);
  for (std::size_t l = 0; l < space_.loads.size(); ++l) load_place_[space_.loads[l]] = l;
  if (like_) return;
  const auto noted = [this](const std::string& key) {
    return numbers<int>(note(key), fmt::format("{}: # {}", name_, key), "a number above 0").front();
  };
  for (const ShapeField& known : shape_fields())
    if (const std::string key = known.key; key != "experts" || !note(key).empty())
      space_.shape.*known.member = noted(key);  // experts: else as many as the loads have
  if (!note("gpus").empty()) {
    gpus_ = noted("gpus");
    if (*gpus_ < 1 || *gpus_ > kMaxTableGpus)
      throw Error(fmt::format("{}: # gpus", name_), std::to_string(*gpus_),
                  fmt::format("1 to {}", kMaxTableGpus), "mend the line");
  }
}

// A configuration says its grid, knobs and class once or on every line.
std::size_t TableReader::read_config() {
  const std::string label = field("config"), grid = field("grid");
  if (label.empty()) throw Error(where_, "no config", "a name for it", "mend the line");
  const auto [place, is_new] = config_place_.emplace(label, space_.candidates.size());
  if (is_new) {
    if (grid.empty())
      throw Error(where_, label + " without a grid", "a grid on the first line of a configuration",
                  "write ROWSxCOL_TILESxSLOTS, e.g. 64x16x264");
    space_.candidates.push_back({.label = label,
                                 .knobs = parse_knobs(field("knobs"), where_),
                                 .grid = parse_grid(grid, where_),
                                 .occupancy = field("occupancy")});
    if (space_.candidates.size() > kMaxConfigs)
      throw Error(where_, "too many configurations", fmt::format("up to {}", kMaxConfigs), "");
    return place->second;
  }
  const Candidate& known = space_.candidates[place->second];
  const auto same = [&](const char* what, const std::string& now, const std::string& before) {
    if (!now.empty() && now != before)
      throw Error(where_, fmt::format("{} with the {} {}", label, what, now),
                  fmt::format("its {} of before, {}", what, before.empty() ? "none" : before),
                  "give the other one another name");
  };
  same("grid", grid.empty() ? "" : grid_text(parse_grid(grid, where_)), grid_text(known.grid));
  same("knobs", parse_knobs(field("knobs"), where_), known.knobs);
  same("occupancy", field("occupancy"), known.occupancy);
  return place->second;
}

std::size_t TableReader::read_load() {
  std::vector<int> load = numbers<int>(field("load"), where_, "counts from 0 with blanks between");
  std::sort(load.rbegin(), load.rend());
  if (space_.shape.experts == 0) space_.shape.experts = static_cast<int>(load.size());
  if (static_cast<int>(load.size()) != space_.shape.experts)
    throw Error(where_, fmt::format("{} counts", load.size()),
                fmt::format("{}, one for each local expert", space_.shape.experts),
                "write the zeros too");
  const auto [place, is_new] = load_place_.emplace(load, space_.loads.size());
  if (is_new) space_.loads.push_back(std::move(load));
  return place->second;
}

void TableReader::read_pass(std::size_t load) {
  long long pairs = 0;
  for (int n : space_.loads[load]) pairs += n;
  MeasuredPass pass{.domain = field("domain").empty() ? "table" : field("domain")};
  // Where nobody says: as if the load were even over the GPUs.
  const long long top_k = std::max(space_.shape.top_k, 1);
  pass.tokens =
      whole_field("tokens", static_cast<int>(std::min<long long>(
                                (pairs * gpus_.value_or(1) + top_k - 1) / top_k, 1 << 30)));
  if (!field("role").empty()) pass.role = parse_role(field("role"), where_);
  const std::string name = field("pass");
  // A load without a pass is one by itself, once for all configurations.
  const std::string key = name.empty() ? fmt::format("\n{} {} {} {}", load, pass.tokens,
                                                     role_name(pass.role), pass.domain)
                                       : name;
  const auto [place, is_new] = pass_place_.emplace(key, passes_.size());
  if (is_new) passes_.push_back({pass, {}});
  GrowingPass& growing = passes_[place->second];
  if (growing.pass.tokens != pass.tokens || growing.pass.role != pass.role ||
      growing.pass.domain != pass.domain)
    throw Error(where_,
                fmt::format("pass {} with {} tokens, role {}, domain {}", name, pass.tokens,
                            role_name(pass.role), pass.domain),
                fmt::format("what its first line says: {}, {}, {}", growing.pass.tokens,
                            role_name(growing.pass.role), growing.pass.domain),
                has("tokens") ? "give the other pass another name" : "add the column tokens");
  const int index = static_cast<int>(load);
  int gpu = whole_field("gpu", -1);
  if (gpu < 0) {  // the next one, unless the pass has this load
    for (const auto& [at, known] : growing.load_of_gpu)
      if (known == index) return;
    for (gpu = 0; growing.load_of_gpu.count(gpu);) ++gpu;
  }
  const int most = gpus_.value_or(kMaxTableGpus);
  if (gpu >= most)
    throw Error(where_, fmt::format("GPU {} of pass {}", gpu, name),
                fmt::format("0 to {}", most - 1), "mend the line, or # gpus");
  const auto [known, is_new_gpu] = growing.load_of_gpu.emplace(gpu, index);
  if (!is_new_gpu && known->second != index)
    throw Error(
        where_, fmt::format("another load for GPU {} of pass {}", gpu, name),
        fmt::format("{}", fmt::join(space_.loads[static_cast<std::size_t>(known->second)], " ")),
        "one load a GPU and pass: name passes and GPUs apart");
}

void TableReader::read_line(std::string_view line) {
  while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);  // tabs are fields
  where_ = fmt::format("{}:{}", name_, ++number_);
  if (line.size() > kMaxLine)
    throw Error(where_, fmt::format("a line of {} bytes", line.size()),
                fmt::format("up to {}", kMaxLine), "");
  if (line.empty()) return;
  if (line.front() == '#') return read_note(line);
  if (column_.empty()) {
    read_header(line);
    begin_space();
    return;
  }
  fields_ = split(line, separator_);
  if (fields_.size() > column_.size())
    throw Error(where_, fmt::format("{} fields", fields_.size()),
                fmt::format("{}, as the header has", column_.size()),
                "quote fields with commas in them, or separate fields by tabs");
  const std::size_t config = read_config(), load = read_load();
  if (!like_) read_pass(load);
  std::vector<float>& us = cells_[{config, load}];
  constexpr const char* kTimes = "microseconds above 0, with blanks between";
  for (const float value : numbers<float>(field("us"), where_, kTimes)) {
    if (value == 0) throw Error(where_, field("us").substr(0, 60), kTimes, "mend the line");
    us.push_back(value);
  }
}

void TableReader::finish_passes() {
  space_.gpus = gpus_.value_or(1);
  if (!gpus_)
    for (const GrowingPass& growing : passes_)
      space_.gpus = std::max(space_.gpus, growing.load_of_gpu.rbegin()->first + 1);
  if (passes_.size() * static_cast<std::size_t>(space_.gpus) > kMaxCells)
    throw Error(name_, fmt::format("{} passes on {} GPUs", passes_.size(), space_.gpus),
                fmt::format("a product up to {}", kMaxCells), "number the GPUs from 0");
  for (GrowingPass& growing : passes_) {
    // GPUs that were not timed count as idle: a pass is as slow as the slowest that was.
    growing.pass.load_of_gpu.assign(static_cast<std::size_t>(space_.gpus), -1);
    for (const auto& [gpu, load] : growing.load_of_gpu)
      growing.pass.load_of_gpu[static_cast<std::size_t>(gpu)] = load;
    space_.passes.push_back(std::move(growing.pass));
  }
}

void TableReader::finish_shipped() {
  std::map<int, std::string> picks;
  for (const auto& [key, label] : notes_) {
    if (!key.starts_with(kShipped)) continue;
    const std::string at = fmt::format("{}: # {}", name_, key);
    const std::vector<int> tokens =
        numbers<int>(key.substr(kShipped.size()), at, "# shipped TOKENS: CONFIG");
    if (!config_place_.count(label))
      throw Error(at, label, "the name of a configuration of this table",
                  "time what the kernel runs by itself too, or leave the line out");
    picks[tokens.front()] = label;
  }
  for (const auto& [tokens, label] : picks) space_.shipped.push_back({tokens, label});
}

MeasuredSpace TableReader::finish() {
  if (column_.empty())
    throw Error(name_, "no header", "a line with the columns config, grid, load and us",
                "see docs/foreign-kernels.md");
  if (cells_.empty())
    throw Error(name_, "no measurements", "at least one line below the header", "");
  if (space_.candidates.size() * space_.loads.size() > kMaxCells)
    throw Error(
        name_,
        fmt::format("{} configurations x {} loads", space_.candidates.size(), space_.loads.size()),
        fmt::format("a product up to {}", kMaxCells), "");
  space_.samples.assign(space_.candidates.size(),
                        std::vector<std::vector<float>>(space_.loads.size()));
  for (auto& [cell, us] : cells_) space_.samples[cell.first][cell.second] = std::move(us);
  if (!like_) finish_passes();
  finish_shipped();
  check_space(space_);
  return std::move(space_);
}

}  // namespace

std::string table_text(const MeasuredSpace& space) {
  std::string text = "# ramp measurements\n";
  for (const ProvenanceField& field : provenance_fields()) {
    std::string value = space.provenance.*field.member;
    std::replace(value.begin(), value.end(), '\n', ' ');
    text += fmt::format("# {}: {}\n", field.key, value);
  }
  if (!space.provenance.kernel.empty())
    text += fmt::format("# kernel: {}\n", space.provenance.kernel);
  for (const ShapeField& field : shape_fields())
    text += fmt::format("# {}: {}\n", field.key, space.shape.*field.member);
  for (const ShippedPick& pick : space.shipped)
    text += fmt::format("# {}{}: {}\n", kShipped, pick.tokens, pick.label);
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
  TableReader reader(name, like);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    reader.read_line(std::string_view(text).substr(at, end - at));
    at = end + 1;
  }
  return reader.finish();
}

}  // namespace ramp
