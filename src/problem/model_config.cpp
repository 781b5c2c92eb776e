// SPDX-License-Identifier: Apache-2.0
#include "problem/model_config.hpp"

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "problem/text_file.hpp"

namespace ramp {
namespace {

using nlohmann::json;

constexpr std::uintmax_t kMaxConfigBytes = 4u << 20;  // real ones are under 100 KB
constexpr int kMaxExperts = 16384;
constexpr int kMaxTopK = 64;
constexpr int kMaxWidth = 1 << 18;
constexpr int kMaxLayers = 4096;

// Multimodal models keep the language model's numbers in an object of their own.
const json& language_part(const json& root) {
  for (const char* key : {"text_config", "language_config", "llm_config", "thinker_config"}) {
    const auto found = root.find(key);
    if (found != root.end() && found->is_object()) return language_part(*found);
  }
  return root;
}

// One number; a list counts when all its entries agree, as in models that write one entry a layer.
std::optional<std::int64_t> number_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  const json* value = &*found;
  if (value->is_array()) {
    if (value->empty()) return std::nullopt;
    for (const json& entry : *value)
      if (!entry.is_number() || !value->front().is_number() || entry != value->front())
        throw Error(key, "a list whose entries differ", "one number for all MoE layers",
                    "give the number by hand (--E --k --hidden --inter)");
    value = &value->front();
  }
  if (value->is_number_unsigned() && value->get<std::uint64_t>() > INT64_MAX)
    throw Error(key, value->dump(), "a number that fits", "check the file");
  if (value->is_number_integer()) return value->get<std::int64_t>();
  if (value->is_number_float()) {
    const double number = value->get<double>();
    if (std::isfinite(number) && number == std::floor(number) && std::fabs(number) < 1e15)
      return static_cast<std::int64_t>(number);
    throw Error(key, value->dump(), "a whole number", "check the file");
  }
  return std::nullopt;
}

struct Places {
  const json& text;
  const json* ffn;  // DBRX keeps the expert's numbers here
};

std::optional<std::int64_t> first_of(const Places& at, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const auto value = number_at(at.text, key)) return value;
    if (at.ffn)
      if (const auto value = number_at(*at.ffn, key)) return value;
  }
  return std::nullopt;
}

int required(const char* what, const char* flag, int override_value, const Places& at,
             std::initializer_list<const char*> keys, int limit) {
  std::optional<std::int64_t> value;
  if (override_value != 0)
    value = override_value;
  else
    value = first_of(at, keys);
  std::string spelled;
  for (const char* key : keys) spelled += (spelled.empty() ? "" : " | ") + std::string(key);
  if (!value)
    throw Error(fmt::format("config.json has no {}", what), "", spelled,
                fmt::format("give it by hand with {}", flag));
  if (*value < 1 || *value > limit)
    throw Error(fmt::format("{} ({})", what, flag), fmt::format("{}", *value),
                fmt::format("1 .. {}", limit), "check the file");
  return static_cast<int>(*value);
}

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool flag_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

// Which decoder layers have routed experts.
struct MoeLayers {
  int count;
  int first;
};

MoeLayers moe_layers(const Places& at) {
  const std::int64_t layers =
      first_of(at, {"num_hidden_layers", "n_layers", "num_layers"}).value_or(1);
  if (layers < 1 || layers > kMaxLayers)
    throw Error("num_hidden_layers", fmt::format("{}", layers), fmt::format("1 .. {}", kMaxLayers),
                "check the file");
  // A list of one flag a layer says it outright.
  const auto flags = at.text.find("moe_layer_freq");
  if (flags != at.text.end() && flags->is_array() && flags->size() <= kMaxLayers) {
    MoeLayers found{0, 0};
    for (std::size_t i = 0; i < flags->size(); ++i) {
      const json& flag = (*flags)[i];
      const bool is_moe =
          flag.is_number() ? flag.get<double>() != 0 : flag.is_boolean() && flag.get<bool>();
      if (is_moe && found.count++ == 0) found.first = static_cast<int>(i);
    }
    if (found.count > 0) return found;
  }
  const std::int64_t dense = first_of(at, {"first_k_dense_replace", "moe_layer_start_index",
                                           "num_dense_layers", "moe_num_first_k_dense"})
                                 .value_or(0);
  if (dense < 0 || dense >= layers)
    throw Error("first_k_dense_replace", fmt::format("{}", dense),
                fmt::format("0 .. {}", layers - 1), "check the file");
  std::int64_t step =
      first_of(at, {"decoder_sparse_step", "expert_layer_period", "interleave_moe_layer_step",
                    "moe_layer_freq", "moe_layer_interval"})
          .value_or(1);
  if (step < 1) step = 1;
  const auto offset = first_of(at, {"expert_layer_offset"});
  std::vector<bool> excluded(layers, false);
  const auto only_mlp = at.text.find("mlp_only_layers");
  if (only_mlp != at.text.end() && only_mlp->is_array())
    for (const json& entry : *only_mlp)
      if (entry.is_number_unsigned() &&
          entry.get<std::uint64_t>() < static_cast<std::uint64_t>(layers))
        excluded[entry.get<std::size_t>()] = true;
  MoeLayers found{0, 0};
  for (std::int64_t i = dense; i < layers; ++i) {
    // Every `step`-th layer: Jamba names the offset, the others mean layers step-1, 2 step-1, ...
    const bool is_moe = offset ? i % step == *offset % step : (i + 1) % step == 0;
    if (is_moe && !excluded[i] && found.count++ == 0) found.first = static_cast<int>(i);
  }
  if (found.count == 0)
    throw Error("MoE layers", "0", "at least one layer with routed experts",
                "check the file, or give --layers");
  return found;
}

// What ramp's FP8 layer computes is SwiGLU without biases; everything else is named.
std::string refusal_of(const json& text, const json& root) {
  const std::string type = text_at(text, "model_type");
  if (type == "gpt_oss") return "its experts have biases and a clamped SwiGLU";
  for (const char* key : {"swiglu_limit", "swiglu_alpha"})
    if (const auto found = text.find(key); found != text.end() && found->is_number())
      return fmt::format("its SwiGLU is clamped ({})", key);
  for (const char* key : {"mlp_bias", "expert_bias", "add_bias_linear", "use_bias"})
    if (flag_at(text, key)) return fmt::format("its experts have biases ({})", key);
  std::string activation = text_at(text, "hidden_act");
  if (activation.empty()) activation = text_at(text, "hidden_activation");
  if (activation.empty()) activation = text_at(root, "hidden_act");
  if (!activation.empty() && activation != "silu" && activation != "swish" &&
      activation != "swiglu")
    return fmt::format("its activation is {}, the layer computes SwiGLU", activation);
  return "";
}

}  // namespace

void check_model(const Model& model) {
  const MoeShape& s = model.shape;
  auto in_range = [&](const char* name, int value, int limit) {
    if (value < 1 || value > limit)
      throw Error(name, fmt::format("{}", value), fmt::format("1 .. {}", limit), "check the model");
  };
  in_range("E (experts)", s.experts, kMaxExperts);
  in_range("k (experts a token)", s.top_k, kMaxTopK);
  in_range("d (hidden)", s.hidden, kMaxWidth);
  in_range("h (intermediate)", s.intermediate, kMaxWidth);
  in_range("MoE layers", model.moe_layers, kMaxLayers);
  if (s.top_k > s.experts)
    throw Error("k (experts a token)", fmt::format("{}", s.top_k),
                fmt::format("1 .. E = {}", s.experts), "check the model");
  if (model.groups < 1 || s.experts % model.groups != 0 || model.groups_kept < 1 ||
      model.groups_kept > model.groups ||
      static_cast<long long>(model.groups_kept) * (s.experts / model.groups) < s.top_k)
    throw Error("expert groups", fmt::format("{} of {}", model.groups_kept, model.groups),
                "groups that divide E, and enough kept for k experts", "check the model");
}

Model model_from_config(std::string_view text, const ModelOverrides& overrides) {
  if (text.size() > kMaxConfigBytes)
    throw Error("config.json", fmt::format("{} bytes", text.size()),
                fmt::format("at most {}", kMaxConfigBytes), "check that this is the right file");
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object())
    throw Error("config.json", "text that is no JSON object", "a Hugging Face config.json",
                "check the file");
  const json& part = language_part(root);
  const auto ffn = part.find("ffn_config");
  const Places at{part, ffn != part.end() && ffn->is_object() ? &*ffn : nullptr};

  Model model;
  model.full_name = text_at(root, "_name_or_path");
  if (model.full_name.empty()) model.full_name = text_at(part, "model_type");
  if (model.full_name.empty()) model.full_name = text_at(root, "model_type");
  model.name = model.full_name.empty() ? "custom" : model.full_name;
  model.shape.experts = required("number of experts", "--E", overrides.experts, at,
                                 {"num_experts", "n_routed_experts", "num_local_experts",
                                  "moe_num_experts", "num_routed_experts", "n_experts"},
                                 kMaxExperts);
  model.shape.top_k =
      required("number of experts a token", "--k", overrides.top_k, at,
               {"num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "top_k",
                "num_selected_experts", "moe_k", "experts_per_token"},
               kMaxTopK);
  model.shape.hidden = required("hidden size", "--hidden", overrides.hidden, at,
                                {"hidden_size", "d_model", "n_embd"}, kMaxWidth);
  model.shape.intermediate =
      required("width of an expert", "--inter", overrides.intermediate, at,
               {"moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size",
                "ffn_hidden_size", "intermediate_size"},
               kMaxWidth);
  if (overrides.moe_layers != 0) {
    model.moe_layers = overrides.moe_layers;
  } else {
    const MoeLayers layers = moe_layers(at);
    model.moe_layers = layers.count;
    model.first_moe_layer = layers.first;
  }
  const auto groups = first_of(at, {"n_group", "num_expert_group"});
  const auto kept = first_of(at, {"topk_group"});
  if (groups && kept && *groups > 1) {
    if (*groups > model.shape.experts || *kept < 1 || *kept > *groups)
      throw Error("n_group, topk_group", fmt::format("{}, {}", *groups, *kept),
                  "1 <= topk_group <= n_group <= E", "check the file");
    model.groups = static_cast<int>(*groups);
    model.groups_kept = static_cast<int>(*kept);
  }
  model.refusal = refusal_of(part, root);
  model.source = "config.json";
  check_model(model);
  return model;
}

Model read_model_config(const std::filesystem::path& path, const ModelOverrides& overrides) {
  return model_from_config(read_whole_file(path, "--config", kMaxConfigBytes), overrides);
}

Model model_from_overrides(const std::string& name, const ModelOverrides& overrides) {
  Model model;
  model.name = name;
  model.full_name = name;
  model.shape = {overrides.experts, overrides.top_k, overrides.hidden, overrides.intermediate};
  model.moe_layers = overrides.moe_layers == 0 ? 1 : overrides.moe_layers;
  model.source = "command line";
  check_model(model);
  return model;
}

}  // namespace ramp
