// SPDX-License-Identifier: Apache-2.0
#include "problem/arrivals.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "problem/json_text.hpp"
#include "problem/text_file.hpp"
#include "problem/unpack.hpp"

namespace ramp {
namespace {

using nlohmann::json;

constexpr std::uintmax_t kMaxBytes = 1ull << 30;
constexpr std::size_t kMaxRequests = 16u << 20;
constexpr double kMaxTokens = 1e7;
constexpr double kMaxSeconds = 1e10;  // three centuries: also what a date may be

enum class Field { kTime, kPrompt, kOutput };

// What public traces call their columns, in lower case.  scale: seconds in one unit of the time.
struct Column {
  const char* name;
  Field field;
  double scale;
  const char* format;  // what a file with this time column is
};
constexpr Column kColumns[] = {
    {"t_s", Field::kTime, 1, "ramp"},
    {"t_ms", Field::kTime, 1e-3, "ramp"},
    {"timestamp", Field::kTime, 1, "azure"},  // a date; BurstGPT writes seconds there
    {"arrived_at", Field::kTime, 1, "vidur"},
    {"prompt_tokens", Field::kPrompt, 1, ""},
    {"contexttokens", Field::kPrompt, 1, ""},
    {"request tokens", Field::kPrompt, 1, ""},
    {"num_prefill_tokens", Field::kPrompt, 1, ""},
    {"input_length", Field::kPrompt, 1, ""},
    {"output_tokens", Field::kOutput, 1, ""},
    {"generatedtokens", Field::kOutput, 1, ""},
    {"response tokens", Field::kOutput, 1, ""},
    {"num_decode_tokens", Field::kOutput, 1, ""},
    {"output_length", Field::kOutput, 1, ""},
};
constexpr const char* kAllowed =
    "a time (t_s, t_ms, TIMESTAMP, arrived_at), a prompt (prompt_tokens, ContextTokens, Request "
    "tokens, num_prefill_tokens, input_length) and an output (output_tokens, GeneratedTokens, "
    "Response tokens, num_decode_tokens, output_length)";

[[noreturn]] void refuse(long long line, const std::string& value, const std::string& allowed) {
  throw Error(fmt::format("arrivals, line {}", line), value, allowed,
              "docs/traces.md shows the formats");
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '"'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text.substr(0, 64));
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return out;
}

// A whole field as a number; NaN where it is none.
double number_of(std::string_view text) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size() && !text.empty() ? value : NAN;
}

// "2023-11-16 18:17:03.9799600", a T in the middle, Z or +00:00 behind: seconds of the epoch.  NaN
// where it is no such date.
double date_of(std::string_view text) {
  const auto part = [&](std::size_t at, std::size_t digits) {
    int value = -1;
    if (at + digits > text.size()) return -1;
    const auto [end, status] = std::from_chars(text.data() + at, text.data() + at + digits, value);
    return status == std::errc() && end == text.data() + at + digits ? value : -1;
  };
  if (text.size() < 19 || text[4] != '-' || text[7] != '-' ||
      (text[10] != ' ' && text[10] != 'T') || text[13] != ':' || text[16] != ':')
    return NAN;
  const std::size_t zone = text.find_first_of("+-Z", 19);
  double offset = 0;
  if (zone != std::string_view::npos && text[zone] != 'Z') {
    const int hours = part(zone + 1, 2), minutes = part(zone + 4, 2);
    if (hours < 0 || minutes < 0) return NAN;
    offset = (text[zone] == '-' ? -1 : 1) * (hours * 3600.0 + minutes * 60.0);
  }
  const int year = part(0, 4), month = part(5, 2), day = part(8, 2), hour = part(11, 2),
            minute = part(14, 2);
  const double second = number_of(text.substr(17, std::min(zone, text.size()) - 17));
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (year < 1970 || !date.ok() || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
      !(second >= 0 && second < 61))
    return NAN;
  return static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count()) * 86400.0 +
         hour * 3600.0 + minute * 60.0 + second - offset;
}

void add(ArrivalTrace& trace, long long line, double time_s, double prompt, double output) {
  if (!(std::abs(time_s) <= kMaxSeconds)) refuse(line, "no such time", "seconds, or a date");
  for (const double tokens : {prompt, output})
    if (!(tokens >= 0 && tokens <= kMaxTokens) || tokens != std::floor(tokens))
      refuse(line, fmt::format("{} tokens", tokens), "whole numbers, 0 .. 10,000,000");
  if (prompt + output == 0) {
    ++trace.empty;
    return;
  }
  if (trace.requests.size() >= kMaxRequests)
    refuse(line, "more requests", fmt::format("at most {}", kMaxRequests));
  trace.requests.push_back({time_s, static_cast<int>(prompt), static_cast<int>(output)});
}

class Csv {
 public:
  explicit Csv(ArrivalTrace& trace) : trace_(trace) {}

  void take(std::string_view line, long long number) {
    if (trimmed(line).empty()) return;
    if (line.front() == '#') return comment(line.substr(1));
    split(line);
    if (!has_header_) return header(number);
    if (cells_.size() < width_)
      refuse(number, fmt::format("{} fields", cells_.size()), fmt::format("{} fields", width_));
    double time = number_of(cells_[at_[0]]);
    if (std::isnan(time) && is_timestamp_) time = date_of(cells_[at_[0]]);
    add(trace_, number, time * scale_, number_of(cells_[at_[1]]), number_of(cells_[at_[2]]));
  }
  bool has_header() const { return has_header_; }

 private:
  void comment(std::string_view text) {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return;
    const std::string key = lower(trimmed(text.substr(0, colon)));
    const std::string value(trimmed(text.substr(colon + 1)).substr(0, 1000));
    if (key == "source") trace_.source = value;
    if (key == "licence") trace_.licence = value;
  }

  void split(std::string_view line) {
    cells_.clear();
    for (std::size_t at = 0; at <= line.size() && cells_.size() < 256;) {
      const std::size_t end = std::min(line.find(',', at), line.size());
      cells_.push_back(trimmed(line.substr(at, end - at)));
      at = end + 1;
    }
  }

  void header(long long number) {
    bool found[3] = {};
    for (std::size_t c = 0; c < cells_.size(); ++c)
      for (const Column& column : kColumns) {
        const auto field = static_cast<std::size_t>(column.field);
        if (lower(cells_[c]) != column.name || found[field]) continue;
        found[field] = true;
        at_[field] = c;
        width_ = std::max(width_, c + 1);
        if (column.field != Field::kTime) continue;
        scale_ = column.scale;
        is_timestamp_ = column.name == std::string_view("timestamp");
        trace_.format = column.format;
      }
    if (!found[0] || !found[1] || !found[2])
      refuse(number,
             fmt::format("a header without {}", !found[0]   ? "a time"
                                                : !found[1] ? "a prompt"
                                                            : "an output"),
             kAllowed);
    has_header_ = true;
  }

  ArrivalTrace& trace_;
  bool has_header_ = false, is_timestamp_ = false;
  double scale_ = 1;
  std::size_t at_[3] = {}, width_ = 0;
  std::vector<std::string_view> cells_;
};

// One request as Mooncake writes it: `timestamp` in milliseconds; other keys as in CSV.
void take_object(ArrivalTrace& trace, const json& object, long long line) {
  if (!object.is_object()) refuse(line, shown(object), "one JSON object a request");
  double value[3] = {NAN, NAN, NAN};
  for (const Column& column : kColumns) {
    const auto found = object.find(column.name);
    if (found == object.end()) continue;
    if (!found->is_number())
      refuse(line, fmt::format("{} {}", column.name, shown(*found)), "a number");
    const bool is_timestamp = column.name == std::string_view("timestamp");
    value[static_cast<int>(column.field)] =
        found->get<double>() * (is_timestamp ? 1e-3 : column.scale);
  }
  if (std::isnan(value[0]) || std::isnan(value[1]) || std::isnan(value[2]))
    refuse(line, "an object without one of them", kAllowed);
  add(trace, line, value[0], value[1], value[2]);
}

void parse_json(ArrivalTrace& trace, std::string_view text, bool is_list) {
  trace.format = "mooncake";
  if (is_list) {
    const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!root.is_array()) refuse(1, "text that is no JSON", "a JSON list of objects");
    for (std::size_t i = 0; i < root.size(); ++i)
      take_object(trace, root[i], static_cast<long long>(i + 1));
    return;
  }
  long long number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty()) continue;
    const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (object.is_discarded()) refuse(number, "text that is no JSON", "one JSON object a line");
    take_object(trace, object, number);
  }
}

}  // namespace

double ArrivalTrace::rate() const {
  return requests.size() < 2 || duration_s() <= 0
             ? 0
             : static_cast<double>(requests.size() - 1) / duration_s();
}

ArrivalTrace parse_arrivals(std::string_view text, const std::string& name) {
  ArrivalTrace trace;
  trace.name = name;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // Azure's files begin with a mark
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (text[first] == '{' || text[first] == '[')) {
    parse_json(trace, text, text[first] == '[');
  } else {
    Csv csv(trace);
    for (long long number = 1; !text.empty(); ++number) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      csv.take(text.substr(0, end), number);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (!csv.has_header()) refuse(1, "nothing", "a header that names " + std::string(kAllowed));
  }
  if (trace.requests.empty())
    throw Error("arrivals", "no request with a token", "at least one", "check " + name);
  std::stable_sort(trace.requests.begin(), trace.requests.end(),
                   [](const Arrival& a, const Arrival& b) { return a.time_s < b.time_s; });
  const double begin = trace.requests.front().time_s;
  for (Arrival& arrival : trace.requests) arrival.time_s -= begin;
  return trace;
}

ArrivalTrace read_arrivals(const std::filesystem::path& path) {
  std::string bytes = read_whole_file(path, "arrivals", kMaxBytes);
  if (is_gzip(bytes)) bytes = gunzip(bytes, kMaxBytes);
  std::string name = path.filename().string();
  for (const char* ending : {".gz", ".csv", ".jsonl", ".json"})
    if (name.size() > std::string_view(ending).size() && name.ends_with(ending))
      name.resize(name.size() - std::string_view(ending).size());
  return parse_arrivals(bytes, name);
}

std::string arrivals_csv(const ArrivalTrace& trace) {
  std::string out = "# ramp arrivals\n";
  if (!trace.source.empty()) out += "# source: " + trace.source + "\n";
  if (!trace.licence.empty()) out += "# licence: " + trace.licence + "\n";
  out += "t_s,prompt_tokens,output_tokens\n";
  // Milliseconds: finer than any pass.
  for (const Arrival& a : trace.requests)
    out += fmt::format("{:.3f},{},{}\n", a.time_s, a.prompt, a.output);
  return out;
}

}  // namespace ramp
