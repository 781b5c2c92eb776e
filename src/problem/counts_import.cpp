// SPDX-License-Identifier: Apache-2.0
#include "problem/counts_import.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "problem/catalog.hpp"
#include "problem/json_text.hpp"
#include "problem/npy.hpp"
#include "problem/text_file.hpp"
#include "problem/unpack.hpp"

namespace ramp {
namespace {

using nlohmann::json;

constexpr std::uintmax_t kMaxBytes = 4ull << 30;
constexpr std::int64_t kMaxCounts = 1ll << 28;
constexpr std::int64_t kMaxCount = 1ll << 50;
constexpr std::int64_t kMaxTokens = 1 << 17;  // of a pass
constexpr const char* kNames[] = {"logical_count", "expert_load_window", "expert_load_pass",
                                  "global_physical_count", "counts"};
constexpr const char* kMapNames[] = {"physical_to_logical_map", "last_physical_to_logical_map"};
constexpr const char* kAllowed =
    "an array [steps, layers, E] or [layers, E] named logical_count, expert_load_window, "
    "expert_load_pass, global_physical_count or counts";

// Any array of whole numbers, C order.
struct Array {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> values;
};

[[noreturn]] void refuse(const std::string& what, const std::string& value,
                         const std::string& allowed) {
  throw Error("counts" + (what.empty() ? "" : ", " + what), value, allowed,
              "docs/traces.md, Counts, shows the forms");
}

void check_extent(std::int64_t values) {
  if (values > kMaxCounts) refuse("", fmt::format("{} numbers", values), "at most 2^28");
}

Array array_of(const NpyArray& npy) {
  Array out;
  out.shape = npy.shape;
  check_extent(npy.size());
  out.values.reserve(static_cast<std::size_t>(npy.size()));
  std::vector<std::int64_t> at(npy.shape.size(), 0);
  for (std::int64_t i = 0; i < npy.size(); ++i) {
    std::int64_t element = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis) element += at[axis] * npy.strides[axis];
    out.values.push_back(npy.at(element));
    for (std::size_t axis = at.size(); axis-- > 0;) {
      if (++at[axis] < npy.shape[axis]) break;
      at[axis] = 0;
    }
  }
  return out;
}

void flatten(const json& list, std::size_t depth, const std::string& name, Array& out) {
  if (!list.is_array()) {
    if (depth != out.shape.size()) refuse(name, shown(list), "nested lists of equal length");
    if (!list.is_number() || list.get<double>() != std::floor(list.get<double>()))
      refuse(name, shown(list), "whole numbers");
    const double value = list.get<double>();
    if (!(std::abs(value) <= static_cast<double>(kMaxCount)))
      refuse(name, shown(list), "at most 2^50");
    out.values.push_back(static_cast<std::int64_t>(value));
    return check_extent(static_cast<std::int64_t>(out.values.size()));
  }
  if (depth >= out.shape.size() || static_cast<std::int64_t>(list.size()) != out.shape[depth])
    refuse(name, fmt::format("a list of {} at depth {}", list.size(), depth),
           "nested lists of equal length");
  for (const json& entry : list) flatten(entry, depth + 1, name, out);
}

Array array_of(const json& list, const std::string& name) {
  Array out;
  for (const json* at = &list; at->is_array() && out.shape.size() < 5; at = &at->front()) {
    out.shape.push_back(static_cast<std::int64_t>(at->size()));
    if (at->empty()) break;
  }
  if (out.shape.empty()) refuse(name, shown(list), "a list");
  flatten(list, 0, name, out);
  return out;
}

// Physical counts [..., slots] added up to logical ones; each layer has its map, or all have one.
void fold(Array& counts, const Array& map) {
  const std::int64_t slots = counts.shape.back(), layers = counts.shape[counts.shape.size() - 2];
  const bool is_shared = map.shape.size() == 1;
  if ((!is_shared && map.shape.size() != 2) || map.shape.back() != slots ||
      (!is_shared && map.shape[0] != layers))
    refuse("physical_to_logical_map", fmt::format("{} numbers", map.values.size()),
           fmt::format("[{0}] or [{1}, {0}], as the counts", slots, layers));
  std::int64_t experts = 0;
  for (const std::int64_t e : map.values) {
    if (e < 0 || e >= slots) refuse("physical_to_logical_map", fmt::format("{}", e), "an expert");
    experts = std::max(experts, e + 1);
  }
  const std::int64_t rows = static_cast<std::int64_t>(counts.values.size()) / slots;
  std::vector<std::int64_t> logical(static_cast<std::size_t>(rows * experts), 0);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t p = 0; p < slots; ++p)
      logical[row * experts + map.values[(is_shared ? 0 : row % layers * slots) + p]] +=
          counts.values[row * slots + p];
  counts.values = std::move(logical);
  counts.shape.back() = experts;
}

ExpertCounts checked(Array array, const std::optional<Array>& map, const std::string& format) {
  if (array.shape.size() != 2 && array.shape.size() != 3)
    refuse("", fmt::format("{} axes", array.shape.size()), kAllowed);
  for (const std::int64_t extent : array.shape)
    if (extent < 1) refuse("", "an axis of length 0", kAllowed);
  for (const std::int64_t n : array.values)
    if (n < 0 || n > kMaxCount) refuse("", fmt::format("{}", n), "counts from 0 to 2^50");
  if (map) fold(array, *map);
  const std::size_t axes = array.shape.size();
  const std::int64_t steps = axes == 3 ? array.shape[0] : 1;
  if (array.shape[axes - 1] > 32766 || array.shape[axes - 2] > 4096)
    refuse("", fmt::format("{} layers of {} experts", array.shape[axes - 2], array.shape[axes - 1]),
           "at most 4096 layers of 32766 experts");
  return {format, static_cast<int>(steps), static_cast<int>(array.shape[axes - 2]),
          static_cast<int>(array.shape[axes - 1]), std::move(array.values)};
}

[[noreturn]] void refuse_pickle(const std::string& name) {
  throw Error(
      "counts", name + ", a PyTorch file: reading its pickles would run code",
      ".npy, .npz or .json",
      "python3 -c \"import torch, numpy; d = torch.load('" + name +
          "', weights_only=True); numpy.savez('counts.npz', logical_count=d['logical_count'])\"; "
          "of per-pass records: numpy.savez('counts.npz', "
          "global_physical_count=numpy.stack([r['global_physical_count'] for r in d['records']]), "
          "physical_to_logical_map=d['last_physical_to_logical_map'])");
}

ExpertCounts from_npz(std::string_view bytes, const std::string& name) {
  std::optional<Array> counts, map;
  std::string format, names;
  const std::vector<ZipEntry> entries = zip_entries(bytes);
  for (const ZipEntry& entry : entries)
    if (entry.name.ends_with("data.pkl")) refuse_pickle(name);
  for (const ZipEntry& entry : entries) {
    std::string array = entry.name;
    if (array.ends_with(".npy")) array.resize(array.size() - 4);
    names += (names.empty() ? "" : ", ") + array.substr(0, 40);
    const bool is_map =
        std::find(std::begin(kMapNames), std::end(kMapNames), array) != std::end(kMapNames);
    const bool is_counts =
        std::find(std::begin(kNames), std::end(kNames), array) != std::end(kNames) ||
        entries.size() == 1;
    if (!is_map && !is_counts) continue;
    const std::string npy = zip_read(bytes, entry, kMaxBytes);
    (is_map ? map : counts) = array_of(parse_npy(npy));
    if (is_counts) format = "npz " + array;
  }
  if (!counts) refuse("", names.substr(0, 200), kAllowed);
  return checked(std::move(*counts), map, format);
}

ExpertCounts from_json(std::string_view bytes) {
  const json root = json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) refuse("", "text that is no JSON", kAllowed);
  if (root.is_array()) return checked(array_of(root, "list"), {}, "JSON list");
  std::optional<Array> map;
  for (const char* name : kMapNames)
    if (const auto found = root.find(name); found != root.end()) map = array_of(*found, name);
  for (const char* name : kNames)
    if (const auto found = root.find(name); found != root.end())
      return checked(array_of(*found, name), map, std::string("JSON ") + name);
  refuse("", "an object without one", kAllowed);
}

}  // namespace

ExpertCounts parse_counts(std::string_view bytes, const std::string& name) {
  if (is_zip(bytes)) return from_npz(bytes, name);
  if (bytes.substr(0, 6) == "\x93NUMPY") return checked(array_of(parse_npy(bytes)), {}, "npy");
  if (bytes.substr(0, 1) == "\x80") refuse_pickle(name);
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '['))
    return from_json(bytes);
  refuse("", name, ".npy, .npz or JSON: " + std::string(kAllowed));
}

ExpertCounts read_counts(const std::filesystem::path& path) {
  std::string bytes = read_whole_file(path, "counts", kMaxBytes);
  if (is_gzip(bytes)) bytes = gunzip(bytes, kMaxBytes);
  return parse_counts(bytes, path.filename().string());
}

ExpectedLoads expected_loads(const ExpertCounts& counts) {
  ExpectedLoads loads(counts.layers, std::vector<double>(counts.experts, 0.0));
  for (int step = 0; step < counts.steps; ++step)
    for (int layer = 0; layer < counts.layers; ++layer) {
      const auto row = counts.of(step, layer);
      for (int e = 0; e < counts.experts; ++e) loads[layer][e] += static_cast<double>(row[e]);
    }
  return loads;
}

ImportedTrace trace_of_counts(const ExpertCounts& counts, const ImportOptions& options) {
  TraceInfo known;
  known.experts = counts.experts;
  int k = options.info.top_k;
  if (const Model* model = find_model_or_null(options.info.model); k == 0 && model)
    k = model->shape.top_k;
  if (k < 1 || k > 64 || k > counts.experts)
    throw Error("--k", fmt::format("{}", k), fmt::format("1 .. min(64, E = {})", counts.experts),
                "add --k, or --model with a name of the catalog");
  ImportedTrace out;
  out.report.format = counts.format;
  out.trace.info = complete_info(known, options, counts.layers, k);
  if (out.trace.info.experts != counts.experts)
    throw Error("--E", fmt::format("{}", out.trace.info.experts),
                fmt::format("E = {} of the counts", counts.experts),
                "physical counts need physical_to_logical_map beside them");
  out.trace.info.made += std::string(out.trace.info.made.empty() ? "" : "; ") +
                         "from counts a pass: loads are exact, which token chose which expert is "
                         "not recorded";
  RawIds raw{0, counts.layers, k, {}};
  out.trace.pass_offsets = {0};
  for (int step = 0; step < counts.steps; ++step) {
    const auto refuse_step = [&](int layer, const std::string& value, const std::string& allowed) {
      throw Error(fmt::format("counts, step {}, layer row {}", step, layer), value, allowed,
                  "sums over a run are no passes: use them with ramp placement make");
    };
    std::int64_t tokens = 0;  // of the pass: a layer may have had fewer (padding)
    for (int layer = 0; layer < counts.layers; ++layer) {
      const auto row = counts.of(step, layer);
      const std::int64_t pairs = std::accumulate(row.begin(), row.end(), std::int64_t{0});
      if (pairs % k != 0)
        refuse_step(layer, fmt::format("{} pairs", pairs), fmt::format("a multiple of k = {}", k));
      if (pairs / k > kMaxTokens)
        refuse_step(layer, fmt::format("{} tokens", pairs / k),
                    fmt::format("at most {} in a pass", kMaxTokens));
      if (const std::int64_t most = *std::max_element(row.begin(), row.end()); most > pairs / k)
        refuse_step(layer, fmt::format("{} tokens of one expert", most),
                    fmt::format("at most the pass's {}", pairs / k));
      tokens = std::max(tokens, pairs / k);
    }
    if (tokens == 0) continue;  // a buffer's unused end
    check_extent((raw.tokens + tokens) * counts.layers * k);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens) * counts.layers * k, -1);
    for (int layer = 0; layer < counts.layers; ++layer) {
      const auto row = counts.of(step, layer);
      const std::int64_t mine = std::accumulate(row.begin(), row.end(), std::int64_t{0}) / k;
      // Dealt round: an expert's n_e <= B tokens in a row fall on different ones.
      for (std::int64_t e = 0, dealt = 0; e < counts.experts; ++e)
        for (std::int64_t n = 0; n < row[e]; ++n, ++dealt)
          ids[static_cast<std::size_t>((dealt % mine * counts.layers + layer) * k + dealt / mine)] =
              static_cast<std::int32_t>(e);
    }
    raw.ids.insert(raw.ids.end(), ids.begin(), ids.end());
    raw.tokens += tokens;
    out.trace.pass_offsets.push_back(raw.tokens);
  }
  if (raw.tokens == 0) refuse("", "nothing but zeros", "passes with tokens");
  // Dealt rows repeat by construction, so only the ids themselves are judged.
  out.trace.ids.assign(raw.ids.begin(), raw.ids.end());
  out.report.tokens = raw.tokens;
  out.report.rows = raw.tokens * counts.layers;
  out.report.padding = std::count(raw.ids.begin(), raw.ids.end(), -1);
  out.report.highest_id = *std::max_element(raw.ids.begin(), raw.ids.end());
  check_trace(out.trace);
  return out;
}

}  // namespace ramp
