// SPDX-License-Identifier: Apache-2.0
// `ramp catalog`: the models and GPUs known by name, any model's config.json, and what a layout
// leaves on each GPU.
#include "problem/catalog.hpp"

#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/model_options.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "problem/placement.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct Options {
  ModelOptions model;
  std::string layout;
  std::string placement;
  bool as_json = false;
};

json json_of(const Model& m) {
  return {
      {"name", m.name},
      {"full_name", m.full_name},
      {"experts", m.shape.experts},
      {"top_k", m.shape.top_k},
      {"hidden", m.shape.hidden},
      {"intermediate", m.shape.intermediate},
      {"moe_layers", m.moe_layers},
      {"first_moe_layer", m.first_moe_layer},
      {"groups", m.groups},
      {"groups_kept", m.groups_kept},
      {"expert_mb", 1e-6 * static_cast<double>(expert_bytes(m.shape.hidden, m.shape.intermediate))},
      {"layer_runs", m.refusal.empty()},
      {"refusal", m.refusal},
      {"source", m.source}};
}

json json_of(const GpuSpec& g) {
  return {{"name", g.name},
          {"product", g.product},
          {"sms", g.sms},
          {"smem_block_bytes", g.smem_block_bytes},
          {"smem_sm_bytes", g.smem_sm_bytes},
          {"l2_bytes", g.l2_bytes},
          {"memory_tbps", g.memory_tbps},
          {"stream_tbps", g.stream_tbps},
          {"fp8_pflops", g.fp8_pflops},
          {"matrix_pflops", g.matrix_pflops},
          {"stream_start_us", g.stream_start_us},
          {"kernel_us", g.kernel_us},
          {"measured", g.measured},
          {"source", g.source}};
}

void list_all(bool as_json) {
  if (as_json) {
    json out = {{"models", json::array()}, {"gpus", json::array()}};
    for (const Model& m : catalog_models()) out["models"].push_back(json_of(m));
    for (const GpuSpec& g : catalog_gpus()) out["gpus"].push_back(json_of(g));
    fmt::print("{}\n", out.dump(2));
    return;
  }
  Table models(
      {"<model", "<full name", "E", "k", "d", "h", "MoE layers", "MB an expert", "<FP8 layer"});
  for (const Model& m : catalog_models())
    models.add({m.name, m.full_name, std::to_string(m.shape.experts), std::to_string(m.shape.top_k),
                std::to_string(m.shape.hidden), std::to_string(m.shape.intermediate),
                std::to_string(m.moe_layers),
                fmt::format("{:.1f}", 1e-6 * static_cast<double>(expert_bytes(
                                                 m.shape.hidden, m.shape.intermediate))),
                m.refusal.empty() ? "runs" : "routing only"});
  fmt::print("Models (E experts, k a token, hidden size d, expert width h):\n{}", models.text());
  Table gpus({"<GPU", "SMs", "smem a block", "L2 MB", "stream TB/s", "FP8 PFLOP/s",
              "stream start us", "<numbers"});
  for (const GpuSpec& g : catalog_gpus())
    gpus.add({g.name, std::to_string(g.sms), std::to_string(g.smem_block_bytes),
              fmt::format("{:.1f}", 1e-6 * static_cast<double>(g.l2_bytes)),
              fmt::format("{:.2f}", g.stream_tbps), fmt::format("{:.2f}", g.matrix_pflops),
              fmt::format("{:.1f}", g.stream_start_us),
              g.measured ? "measured" : "data sheet, scaled"});
  fmt::print("\nGPUs:\n{}", gpus.text());
  fmt::print(
      "\nMore on one: ramp catalog olmoe --layout ep8.  Another model: ramp catalog --config "
      "config.json.\n");
}

void show_one(const Options& options) {
  const Model model = options.model.model();
  json out = json_of(model);
  Table gpus({"GPU", "experts", "d", "h", "MB of weights", "us to read them on an H200"});
  std::string layout_name;
  if (!options.layout.empty()) {
    Layout layout = parse_layout(options.layout);
    if (!options.placement.empty())
      layout = with_placement_file(std::move(layout), model.shape.experts, options.placement);
    check_layout(model.shape, layout);
    layout_name = layout.name();
    out["layout"] = layout_name;
    for (int gpu = 0; gpu < layout.gpus; ++gpu) {
      const LocalShape local = local_shape(model.shape, layout, gpu);
      const double mb = 1e-6 * local.experts *
                        static_cast<double>(expert_bytes(local.hidden, local.intermediate));
      // No pairs: the limit is the weight stream alone.
      const double us = floor_us(local, local.experts, 0);
      out["gpus"].push_back({{"gpu", gpu},
                             {"experts", local.experts},
                             {"hidden", local.hidden},
                             {"intermediate", local.intermediate},
                             {"mb", mb},
                             {"stream_us", us}});
      gpus.add({std::to_string(gpu), std::to_string(local.experts), std::to_string(local.hidden),
                std::to_string(local.intermediate), fmt::format("{:.1f}", mb),
                fmt::format("{:.1f}", us)});
    }
  }
  if (options.as_json) {
    fmt::print("{}\n", out.dump(2));
    return;
  }
  const MoeShape& s = model.shape;
  fmt::print("{} ({})\n", model.name, model.full_name);
  fmt::print(
      "  E = {} experts, k = {} a token, d = {}, h = {}; {} MoE layers from decoder layer {}\n",
      s.experts, s.top_k, s.hidden, s.intermediate, model.moe_layers, model.first_moe_layer);
  if (model.groups > 1)
    fmt::print("  routing keeps {} of {} groups of experts a token\n", model.groups_kept,
               model.groups);
  fmt::print("  {:.2f} MB an expert in FP8, {:.1f} MB a layer\n",
             1e-6 * static_cast<double>(expert_bytes(s.hidden, s.intermediate)),
             1e-6 * s.experts * static_cast<double>(expert_bytes(s.hidden, s.intermediate)));
  fmt::print("  FP8 layer: {}\n", model.refusal.empty() ? "runs" : "refused: " + model.refusal);
  fmt::print("  from {}\n", model.source);
  if (!layout_name.empty()) fmt::print("\nUnder {}:\n{}", layout_name, gpus.text());
}

}  // namespace

void add_catalog(CLI::App& app) {
  CLI::App* verb = app.add_subcommand(
      "catalog", "The models and GPUs that ramp knows, and what a layout makes of one");
  auto options = std::make_shared<Options>();
  add_model_options(*verb, options->model, /*positional=*/true);
  verb->add_option("--layout", options->layout, "tpN or epN: what each GPU then holds");
  verb->add_option("--placement", options->placement,
                   "JSON file: the GPU of each expert, with epN");
  verb->add_flag("--json", options->as_json, "for machines");
  verb->footer(
      "Examples:\n"
      "  ramp catalog                                   all models and GPUs\n"
      "  ramp catalog qwen15 --layout ep8               60 experts on 8 GPUs, split as vLLM splits "
      "them\n"
      "  ramp catalog --config config.json --layout tp4 a model from its Hugging Face config.json");
  verb->callback([options] {
    if (options->model.given() || !options->layout.empty())
      show_one(*options);
    else
      list_all(options->as_json);
  });
}

}  // namespace ramp::cli
