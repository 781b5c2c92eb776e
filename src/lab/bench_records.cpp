// SPDX-License-Identifier: Apache-2.0
#include "lab/bench_records.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "base/error.hpp"
#include "base/whole_file.hpp"
#include "problem/text_file.hpp"

namespace ramp {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxFileBytes = 64u << 20;
constexpr std::size_t kMaxRows = 200'000;
constexpr const char* kKeyFields[] = {"model", "layout", "rank",  "tokens",
                                      "load",  "mode",   "policy"};

// Nothing that a clock can tell apart stands behind the third digit.
double rounded(double x, double unit) { return std::round(x / unit) * unit; }

double short_number(double x) {
  if (!std::isfinite(x)) return x;
  return std::stod(fmt::format("{:.6g}", rounded(x, 1e-6)));
}

}  // namespace

ordered_json row_of(const BenchRecord& r) {
  ordered_json row;
  row["model"] = r.model;
  row["layout"] = r.layout;
  row["rank"] = r.rank;
  row["tokens"] = r.tokens;
  row["load"] = r.load;
  row["mode"] = r.mode;
  row["policy"] = r.policy;
  row["entry"] = r.entry;
  row["active_mb"] = short_number(r.active_mb);
  row["us"] = short_number(r.us);
  row["choice_us"] = short_number(r.choice_us);
  row["ffn_us"] = short_number(r.ffn_us);
  row["stream_us"] = short_number(r.stream_us);
  row["floor_us"] = short_number(r.floor_us);
  row["rel_err"] = short_number(r.rel_err);
  row["gpu"] = r.gpu;
  row["commit"] = r.commit;
  row["date"] = r.date;
  return row;
}

std::string key_of(const ordered_json& row) {
  std::string key;
  for (const char* field : kKeyFields) {
    if (!row.is_object() || !row.contains(field))
      throw Error("row", row.dump().substr(0, 120), fmt::format("a row with \"{}\"", field), "");
    const ordered_json& value = row[field];
    key += (key.empty() ? "" : "/") + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return key;
}

ordered_json merged(const std::string& old, const std::string& path,
                    const std::vector<BenchRecord>& records) {
  const auto refuse = [&](const std::string& what) {
    return Error("--json " + path, what, "a file of an earlier `ramp bench layer --json`, or none",
                 "name another file");
  };
  ordered_json document = {{"rows", ordered_json::array()}, {"conditions", ordered_json::object()}};
  if (!old.empty()) {
    const ordered_json read = ordered_json::parse(old, nullptr, false);
    if (!read.is_object() || !read.contains("rows") || !read["rows"].is_array())
      throw refuse("something else");
    if (read["rows"].size() > kMaxRows) throw refuse(fmt::format("{} rows", read["rows"].size()));
    document = read;
    if (!document.contains("conditions") || !document["conditions"].is_object())
      document["conditions"] = ordered_json::object();
  }
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < document["rows"].size(); ++i) {
    try {
      places[key_of(document["rows"][i])] = i;
    } catch (const Error& e) {
      throw refuse(fmt::format("rows/{}: {}", i, e.what()));
    }
  }
  for (const BenchRecord& r : records) {
    const ordered_json row = row_of(r);
    const std::string key = key_of(row);
    if (const auto it = places.find(key); it != places.end()) {
      document["rows"][it->second] = row;
    } else {
      places[key] = document["rows"].size();
      document["rows"].push_back(row);
    }
    document["conditions"][key] = {
        {"layers", r.layers},   {"router", r.router},
        {"routing", r.routing}, {"samples", r.samples},
        {"dropped", r.dropped}, {"spread", short_number(r.spread)},
        {"sm_mhz", r.sm_mhz},   {"throttle", r.throttle.empty() ? "none" : r.throttle}};
  }
  return document;
}

void merge_into_file(const std::string& path, const std::vector<BenchRecord>& records) {
  std::string old;
  if (std::filesystem::exists(path)) old = read_whole_file(path, "--json", kMaxFileBytes);
  const ordered_json document = merged(old, path, records);
  // A row a line: what changed shows in a diff.
  std::string text = "{\"rows\":[";
  for (std::size_t i = 0; i < document["rows"].size(); ++i)
    text += (i ? ",\n" : "\n") + document["rows"][i].dump();
  text += "\n],\n\"conditions\":{";
  bool first = true;
  for (const auto& [key, value] : document["conditions"].items()) {
    text += (first ? "\n" : ",\n") + ordered_json(key).dump() + ":" + value.dump();
    first = false;
  }
  text += "\n}}\n";
  write_whole_file(path, text);
}

}  // namespace ramp
