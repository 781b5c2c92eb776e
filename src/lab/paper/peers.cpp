// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "choice/statistics.hpp"
#include "lab/paper/records.hpp"

namespace ramp {
namespace {

using nlohmann::json;

// vLLM's Triton MoE with our numbers, and as it ships.
constexpr const char* kTriton[] = {"vllm", "vllm_stock"};
constexpr const char* kOurs = "ramp";

// Rows hold all times in "us" by name, or ours in "us" and the others' in "peers" (layer records).
double us_of(const json& row, const char* name) {
  if (name == std::string(kOurs) && row.contains("peers") && row["us"].is_number())
    return row["us"].get<double>();
  const json us = row.value(row.contains("peers") ? "peers" : "us", json::object());
  return us.is_object() && us.contains(name) && us[name].is_number() ? us[name].get<double>()
                                                                     : Number::kUnknown;
}

bool is_same_work(const json& a, const json& b) {
  for (const char* field : {"model", "layout", "tokens", "load"})
    if (!a.contains(field) || !b.contains(field) || a[field] != b[field]) return false;
  return true;
}

// Our layer with the best entry of its menu, as the paper's is with its choice.
double recorded_us(const json& records, const json& row) {
  if (!records.contains("rows")) return Number::kUnknown;
  for (const json& ours : records["rows"])
    if (is_same_work(ours, row) && ours.value("mode", "") == "fast" &&
        ours.value("policy", "") == "best" && ours.value("rank", "heaviest") == "heaviest")
      return ours.value("us", Number::kUnknown);
  return Number::kUnknown;
}

}  // namespace

std::vector<PeerLayer> join_peers(const std::string& peers, const std::string& records) {
  const json theirs = parse_records(peers, "peers"), ours = parse_records(records, "layer records");
  std::vector<PeerLayer> out;
  for (const json& row : theirs["rows"]) {
    PeerLayer layer{row.value("model", ""),
                    row.value("layout", ""),
                    row.value("load", ""),
                    row.value("tokens", 0),
                    Number::kUnknown,
                    us_of(row, kOurs),
                    true};
    for (const char* name : kTriton) layer.triton_us = std::fmin(layer.triton_us, us_of(row, name));
    if (std::isnan(layer.ours_us)) layer.ours_us = recorded_us(ours, row), layer.is_one_run = false;
    if (layer.triton_us > 0 && layer.ours_us > 0) out.push_back(std::move(layer));
  }
  return out;
}

std::vector<PeerLayer> peer_layers(const PaperRequest& request) {
  if (request.peers.empty()) return {};
  return join_peers(read_records(request.peers), read_records(request.records));
}

Number over_triton(const std::vector<PeerLayer>& layers, const std::string& model,
                   const std::string& layout, int least_tokens, const PaperRequest& request) {
  std::vector<double> logs;
  for (const PeerLayer& layer : layers)
    if (layer.model == model && layer.layout == layout && layer.tokens >= least_tokens)
      logs.push_back(std::log(layer.triton_us / layer.ours_us));
  if (logs.empty()) return {};
  const Interval interval = bootstrap_exp_mean(logs, request.resamples, request.seed);
  return {exp_mean(logs), interval.low, interval.high};
}

std::string peers_note(const std::vector<PeerLayer>& layers) {
  if (layers.empty())
    return "vLLM's Triton MoE is not measured here: --peers FILE takes a side-by-side record.";
  const auto one_run = std::count_if(layers.begin(), layers.end(),
                                     [](const PeerLayer& layer) { return layer.is_one_run; });
  return fmt::format(
      "Over vLLM's Triton MoE: whole layers in captured graphs, the faster of vLLM's two ways of "
      "scaling activations, geometric mean over token counts and loads; {} points, {} of them with "
      "both layers in one run (H200s differ by 5 %), the others joined with the best entry of a "
      "menu.",
      layers.size(), one_run);
}

}  // namespace ramp
