// SPDX-License-Identifier: Apache-2.0
// NumPy arrays in.  The ids come as [layer, token, k] (or [token, k] of one layer); a sidecar JSON,
// or further arrays of an .npz, say where requests and passes begin.
#include "problem/trace_import.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "problem/json_text.hpp"
#include "problem/npy.hpp"
#include "problem/text_file.hpp"
#include "problem/unpack.hpp"

namespace ramp {
namespace {

using nlohmann::json;

constexpr std::uintmax_t kMaxInputBytes = 16ull << 30;
constexpr std::uintmax_t kMaxSidecarBytes = 256u << 20;
constexpr std::int64_t kMaxIds = 2ll << 30;

struct Sidecar {
  TraceInfo info;
  std::optional<std::vector<std::int64_t>> request_offsets, pass_offsets;
  std::vector<std::string> request_domain;
  std::vector<std::int64_t> request_prompt;
};

[[noreturn]] void refuse_sidecar(const std::string& key, const std::string& value,
                                 const char* allowed) {
  throw Error("sidecar, " + key, value, allowed, "check the JSON beside the array");
}

std::vector<std::int64_t> whole_numbers(const json& list, const std::string& key) {
  if (!list.is_array()) refuse_sidecar(key, shown(list), "a list of numbers");
  std::vector<std::int64_t> out;
  out.reserve(list.size());
  for (const json& entry : list) {
    if (!entry.is_number_integer() || entry.get<double>() < 0 || entry.get<double>() > 1e15)
      refuse_sidecar(key, shown(entry), "whole numbers from 0");
    out.push_back(entry.get<std::int64_t>());
  }
  return out;
}

TracePhase phase_of(const std::string& text) {
  const bool prefill =
      text.find("prefill") != std::string::npos || text.find("training") != std::string::npos;
  const bool decode = text.find("decode") != std::string::npos;
  if (prefill && decode) return TracePhase::kMixed;
  return prefill ? TracePhase::kPrefill : decode ? TracePhase::kDecode : TracePhase::kUnknown;
}

Sidecar parse_sidecar(std::string_view text) {
  Sidecar out;
  if (text.empty()) return out;
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object())
    refuse_sidecar("text", "no JSON object", "a JSON object");
  auto text_at = [&](const char* key) {
    const auto found = root.find(key);
    return found != root.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  auto number_at = [&](const char* key, int limit) {
    const auto found = root.find(key);
    if (found == root.end()) return 0;
    if (!found->is_number_integer() || found->get<double>() < 1 || found->get<double>() > limit)
      refuse_sidecar(key, shown(*found), "a positive whole number");
    return found->get<int>();
  };
  out.info.model = text_at("model");
  out.info.experts = number_at("experts", 32766);
  out.info.top_k = number_at("top_k", 64);
  out.info.phase = phase_of(text_at("phase"));
  out.info.source = text_at("source");
  out.info.licence = text_at("licence");
  const auto layers = root.find("layers");
  if (layers != root.end() && layers->is_array()) {
    for (const std::int64_t layer : whole_numbers(*layers, "layers")) {
      if (layer > 65535)
        refuse_sidecar("layers", fmt::format("{}", layer), "decoder layers, 0 .. 65535");
      out.info.layers.push_back(static_cast<int>(layer));
    }
  } else if (const int layer_given = root.contains("layer") ? 1 : 0; layer_given) {
    const json& layer = root["layer"];
    if (!layer.is_number_unsigned() || layer.get<std::uint64_t>() > 65535)
      refuse_sidecar("layer", shown(layer), "a decoder layer, 0 .. 65535");
    out.info.layers = {layer.get<int>()};
  }
  if (const auto list = root.find("request_offsets"); list != root.end())
    out.request_offsets = whole_numbers(*list, "request_offsets");
  if (const auto list = root.find("pass_offsets"); list != root.end())
    out.pass_offsets = whole_numbers(*list, "pass_offsets");
  if (const auto list = root.find("request_prompt"); list != root.end())
    out.request_prompt = whole_numbers(*list, "request_prompt");
  if (const auto list = root.find("request_domain"); list != root.end()) {
    if (!list->is_array()) refuse_sidecar("request_domain", shown(*list), "a list of names");
    for (const json& entry : *list) {
      if (!entry.is_string()) refuse_sidecar("request_domain", shown(entry), "names");
      out.request_domain.push_back(entry.get<std::string>());
    }
  }
  return out;
}

void check_offsets(const std::vector<std::int64_t>& offsets, std::int64_t tokens, const char* key) {
  if (offsets.size() < 2 || offsets.front() != 0 || offsets.back() != tokens)
    refuse_sidecar(key,
                   offsets.size() < 2 ? "fewer than two"
                                      : fmt::format("{} .. {}", offsets.front(), offsets.back()),
                   fmt::format("0 .. {}, the number of tokens", tokens).c_str());
  for (std::size_t i = 1; i < offsets.size(); ++i)
    if (offsets[i] < offsets[i - 1])
      refuse_sidecar(fmt::format("{}[{}]", key, i), fmt::format("{}", offsets[i]),
                     "ascending numbers");
}

void add_requests(const Sidecar& sidecar, RoutingTrace& trace) {
  const std::int64_t tokens = trace.tokens();
  if (sidecar.pass_offsets) {
    check_offsets(*sidecar.pass_offsets, tokens, "pass_offsets");
    trace.pass_offsets = *sidecar.pass_offsets;
  }
  if (!sidecar.request_offsets) return;
  const auto& offsets = *sidecar.request_offsets;
  check_offsets(offsets, tokens, "request_offsets");
  const std::size_t requests = offsets.size() - 1;
  if (!sidecar.request_domain.empty() && sidecar.request_domain.size() != requests)
    refuse_sidecar("request_domain", fmt::format("{} names", sidecar.request_domain.size()),
                   fmt::format("{}, one a request", requests).c_str());
  if (!sidecar.request_prompt.empty() && sidecar.request_prompt.size() != requests)
    refuse_sidecar("request_prompt", fmt::format("{} numbers", sidecar.request_prompt.size()),
                   fmt::format("{}, one a request", requests).c_str());
  for (std::size_t r = 0; r < requests; ++r) {
    TraceRequest request;
    if (offsets[r + 1] - offsets[r] > std::numeric_limits<int>::max())
      refuse_sidecar(fmt::format("request_offsets[{}]", r + 1), "a request of over 2^31 tokens",
                     "fewer");
    request.first = offsets[r];
    request.tokens = static_cast<int>(offsets[r + 1] - offsets[r]);
    request.domain =
        domain_index(trace, sidecar.request_domain.empty() ? "" : sidecar.request_domain[r]);
    if (!sidecar.request_prompt.empty()) {
      if (sidecar.request_prompt[r] > request.tokens)
        refuse_sidecar(fmt::format("request_prompt[{}]", r),
                       fmt::format("{}", sidecar.request_prompt[r]),
                       fmt::format("at most the request's {} tokens", request.tokens).c_str());
      request.prompt = static_cast<int>(sidecar.request_prompt[r]);
    } else if (trace.info.phase == TracePhase::kPrefill) {
      request.prompt = request.tokens;
    }
    trace.requests.push_back(request);
  }
}

RawIds raw_ids(const NpyArray& array, AxisOrder order) {
  RawIds raw;
  std::int64_t token_stride = 0, layer_stride = 0, k_stride = 0, layers = 1, k = 0;
  if (array.shape.size() == 2) {
    raw.tokens = array.shape[0];
    k = array.shape[1];
    token_stride = array.strides[0];
    k_stride = array.strides[1];
  } else if (array.shape.size() == 3) {
    const int layer_axis = order == AxisOrder::kLayerTokenK ? 0 : 1;
    layers = array.shape[layer_axis];
    raw.tokens = array.shape[1 - layer_axis];
    k = array.shape[2];
    layer_stride = array.strides[layer_axis];
    token_stride = array.strides[1 - layer_axis];
    k_stride = array.strides[2];
  } else {
    throw Error("shape of the ids", fmt::format("{} axes", array.shape.size()),
                "[layer, token, k], or [token, k] of one layer",
                "sums over a run hold no tokens: they can't be a trace");
  }
  if (layers < 1 || layers > 4096 || k < 1 || k > 64 ||
      raw.tokens > std::numeric_limits<int>::max() || raw.tokens * layers * k > kMaxIds)
    throw Error("shape of the ids",
                fmt::format("{} tokens, {} layers, k {}", raw.tokens, layers, k),
                fmt::format("at most 4096 layers, k 64, {} ids", kMaxIds),
                "check the order of the axes (--order), or cut the record");
  raw.layers = static_cast<int>(layers);
  raw.k = static_cast<int>(k);
  raw.ids.reserve(array.size());
  for (std::int64_t token = 0; token < raw.tokens; ++token)
    for (std::int64_t layer = 0; layer < layers; ++layer)
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t id =
            array.at(token * token_stride + layer * layer_stride + j * k_stride);
        raw.ids.push_back(static_cast<std::int32_t>(
            std::clamp<std::int64_t>(id, std::numeric_limits<std::int32_t>::min(),
                                     std::numeric_limits<std::int32_t>::max())));
      }
  return raw;
}

ImportedTrace from_array(const NpyArray& array, const Sidecar& sidecar,
                         const ImportOptions& options, const std::string& format) {
  const RawIds raw = raw_ids(array, options.order);
  ImportedTrace out;
  out.report.format = fmt::format("{} {}", format, array.dtype());
  out.trace.info = complete_info(sidecar.info, options, raw.layers, raw.k);
  judge_ids(raw, options.force, out.trace, out.report);
  add_requests(sidecar, out.trace);
  cut_into_passes(out.trace, options.pass_tokens);
  thin_requests(out.trace, options.requests_per_domain, out.report);
  check_trace(out.trace);
  return out;
}

std::filesystem::path sidecar_of(const std::filesystem::path& path) {
  std::string name = path.filename().string();
  for (const char* ending : {".gz", ".npy", ".ids"})
    if (name.size() > std::string_view(ending).size() && name.ends_with(ending))
      name.resize(name.size() - std::string_view(ending).size());
  return path.parent_path() / (name + ".json");
}

}  // namespace

ImportedTrace import_npy(std::string_view npy, std::string_view sidecar_json,
                         const ImportOptions& options) {
  return from_array(parse_npy(npy), parse_sidecar(sidecar_json), options, "npy");
}

ImportedTrace import_npz(std::string_view npz, const ImportOptions& options) {
  Sidecar sidecar;
  std::string ids_bytes, meta;
  auto offsets_of = [&](const std::string& bytes, const char* key) {
    const NpyArray array = parse_npy(bytes);
    if (array.shape.size() != 1 || array.size() > (64ll << 20))
      throw Error("npz, " + std::string(key),
                  fmt::format("{} axes, {} numbers", array.shape.size(), array.size()), "one axis",
                  "check the file");
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < array.size(); ++i) out.push_back(array.at(i * array.strides[0]));
    return out;
  };
  std::string names;
  std::vector<std::string> arrays;
  const std::vector<ZipEntry> entries = zip_entries(npz);
  for (const ZipEntry& entry : entries) {
    std::string name = entry.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    names += (names.empty() ? "" : ", ") + name.substr(0, 40);
    if (name == "ids" || name == "routed_experts" || name == "topk_ids" || entries.size() == 1)
      ids_bytes = zip_read(npz, entry);
    else if (name == "meta.json")
      meta = zip_read(npz, entry, kMaxSidecarBytes);
    else if (name == "request_offsets")
      sidecar.request_offsets =
          offsets_of(zip_read(npz, entry, kMaxSidecarBytes), "request_offsets");
    else if (name == "pass_offsets")
      sidecar.pass_offsets = offsets_of(zip_read(npz, entry, kMaxSidecarBytes), "pass_offsets");
  }
  if (ids_bytes.empty())
    throw Error("npz", names.substr(0, 200), "an array named ids, routed_experts or topk_ids",
                "rename the array");
  Sidecar from_meta = parse_sidecar(meta);
  if (!from_meta.request_offsets) from_meta.request_offsets = sidecar.request_offsets;
  if (!from_meta.pass_offsets) from_meta.pass_offsets = sidecar.pass_offsets;
  return from_array(parse_npy(ids_bytes), from_meta, options, "npz");
}

ImportedTrace import_trace(const std::filesystem::path& path, const ImportOptions& options) {
  std::string bytes = read_whole_file(path, "input", kMaxInputBytes);
  if (is_gzip(bytes)) bytes = gunzip(bytes);
  if (is_zip(bytes)) return import_npz(bytes, options);
  if (bytes.substr(0, 6) == "\x93NUMPY") {
    const std::filesystem::path beside =
        options.sidecar.empty() ? sidecar_of(path) : options.sidecar;
    std::string sidecar;
    if (!options.sidecar.empty() || std::filesystem::exists(beside))
      sidecar = read_whole_file(beside, "--sidecar", kMaxSidecarBytes);
    return import_npy(bytes, sidecar, options);
  }
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && bytes[first] == '{') return import_json_lines(bytes, options);
  throw Error("input", path.string(), ".npy, .npy.gz, .npz, or JSON lines",
              "docs/traces.md says what each must hold");
}

}  // namespace ramp
