// SPDX-License-Identifier: Apache-2.0
#include "problem/trace_format.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "problem/json_text.hpp"

namespace ramp::trace_format {
namespace {

using nlohmann::json;

std::string string_at(const json& root, const char* key) {
  const auto found = root.find(key);
  if (found == root.end()) return "";
  if (!found->is_string())
    throw Error(fmt::format("trace header, {}", key), "no text", "text", "the file is damaged");
  return found->get<std::string>();
}

int int_at(const json& root, const char* key, int limit) {
  const auto found = root.find(key);
  if (found == root.end() || !found->is_number_unsigned() ||
      found->get<std::uint64_t>() > static_cast<std::uint64_t>(limit))
    throw Error(fmt::format("trace header, {}", key),
                found == root.end() ? "nothing" : shown(*found), fmt::format("0 .. {}", limit),
                "the file is damaged or of another kind");
  return found->get<int>();
}

}  // namespace

std::string pack_info(const TraceInfo& info) {
  json root = {
      {"model", info.model},
      {"experts", info.experts},
      {"top_k", info.top_k},
      {"layers", info.layers},
      {"kind", text_of(info.kind)},
      {"phase", text_of(info.phase)},
      {"id_space", text_of(info.id_space)},
      {"source", info.source},
      {"licence", info.licence},
      {"made", info.made},
  };
  if (info.kind == TraceKind::kGenerated) {
    root["calibration"] = info.calibration;
    root["seed"] = info.seed;
  }
  return root.dump(-1, ' ', false, json::error_handler_t::replace);
}

TraceInfo unpack_info(std::string_view text) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object())
    throw Error("trace header", "text that is no JSON object", "a description",
                "the file is damaged");
  TraceInfo info;
  info.model = string_at(root, "model");
  info.experts = int_at(root, "experts", 32766);
  info.top_k = int_at(root, "top_k", 64);
  const auto layers = root.find("layers");
  if (layers == root.end() || !layers->is_array() || layers->size() > 4096)
    throw Error("trace header, layers", "no list", "a list of at most 4096 layers",
                "the file is damaged");
  for (const json& layer : *layers) {
    if (!layer.is_number_unsigned() || layer.get<std::uint64_t>() > 65535)
      throw Error("trace header, layers", shown(layer), "0 .. 65535", "the file is damaged");
    info.layers.push_back(layer.get<int>());
  }
  const std::string kind = string_at(root, "kind");
  if (kind != "recorded" && kind != "generated")
    throw Error("trace header, kind", "'" + kind.substr(0, 40) + "'", "recorded, generated",
                "the file is damaged");
  info.kind = kind == "recorded" ? TraceKind::kRecorded : TraceKind::kGenerated;
  const std::string phase = string_at(root, "phase");
  for (const TracePhase p : {TracePhase::kPrefill, TracePhase::kDecode, TracePhase::kMixed})
    if (phase == text_of(p)) info.phase = p;
  if (string_at(root, "id_space") == text_of(IdSpace::kPhysical))
    info.id_space = IdSpace::kPhysical;
  info.source = string_at(root, "source");
  info.licence = string_at(root, "licence");
  info.made = string_at(root, "made");
  info.calibration = string_at(root, "calibration");
  if (const auto seed = root.find("seed"); seed != root.end() && seed->is_number_unsigned())
    info.seed = seed->get<std::uint64_t>();
  check_trace_info(info);
  return info;
}

}  // namespace ramp::trace_format
