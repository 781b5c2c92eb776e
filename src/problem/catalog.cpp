// SPDX-License-Identifier: Apache-2.0
#include "problem/catalog.hpp"

#include "base/error.hpp"

namespace ramp {
namespace {

constexpr const char* kTable1 = "the paper's Table 1 (E, k, h); config.json (d, layers)";
constexpr const char* kConfig = "the model's config.json";

// E, k, d, h | MoE layers, index of the first | groups, groups kept
const Model kModels[] = {
    {"olmoe", "OLMoE-1B-7B", {64, 8, 2048, 1024}, 16, 0, 1, 1, "", kTable1},
    {"qwen15", "Qwen1.5-MoE-A2.7B", {60, 4, 2048, 1408}, 24, 0, 1, 1, "", kTable1},
    {"qwen2-57b", "Qwen2-57B-A14B", {64, 8, 3584, 2560}, 28, 0, 1, 1, "", kTable1},
    {"qwen3-30b", "Qwen3-30B-A3B", {128, 8, 2048, 768}, 48, 0, 1, 1, "", kTable1},
    {"qwen35-35b", "Qwen3.5-35B-A3B", {256, 8, 2048, 512}, 40, 0, 1, 1, "", kTable1},
    {"phi35", "Phi-3.5-MoE", {16, 2, 4096, 6400}, 32, 0, 1, 1, "", kTable1},
    {"mixtral", "Mixtral-8x22B", {8, 2, 6144, 16384}, 56, 0, 1, 1, "", kTable1},
    {"deepseek-v3", "DeepSeek-V3", {256, 8, 7168, 2048}, 58, 3, 8, 4, "", kTable1},
    {"dsv2-lite", "DeepSeek-V2-Lite", {64, 6, 2048, 1408}, 26, 1, 1, 1, "", kConfig},
    {"deepseek-r1", "DeepSeek-R1", {256, 8, 7168, 2048}, 58, 3, 8, 4, "", kConfig},
    {"qwen3-235b", "Qwen3-235B-A22B", {128, 8, 4096, 1536}, 94, 0, 1, 1, "", kConfig},
    {"kimi-k2", "Kimi-K2", {384, 8, 7168, 2048}, 60, 1, 1, 1, "", kConfig},
    {"glm45", "GLM-4.5", {160, 8, 5120, 1536}, 89, 3, 1, 1, "", kConfig},
    {"gptoss-20b",
     "gpt-oss-20b",
     {32, 4, 2880, 2880},
     24,
     0,
     1,
     1,
     "its experts have biases and a clamped SwiGLU, and d = 2880 is no whole number of 128-blocks",
     kConfig},
};

// H200: measured on one H200 (132 SMs, clocks up to 1980 MHz) by a kernel that only reads weights
// in a captured graph, and by wgmma loops: docs/measuring.md.  The others: data sheets, with the
// H200's measured share of its data sheet.
const GpuSpec kGpus[] = {
    {"h200", "NVIDIA H200", 132, 232448, 233472, 62914560, 4.8, 4.58, 1.979, 1.9, 1.3, 0.53, true,
     "measured on an H200; data sheet for memory_tbps and fp8_pflops"},
    {"h100", "NVIDIA H100 80GB HBM3", 132, 232448, 233472, 52428800, 3.35, 3.20, 1.979, 1.9, 1.3,
     0.53, false, "data sheet (SXM5), scaled by the H200's measured shares"},
    {"h20", "NVIDIA H20", 78, 232448, 233472, 62914560, 4.0, 3.82, 0.296, 0.284, 1.3, 0.53, false,
     "data sheet, scaled by the H200's measured shares"},
};

template <class Rows>
std::string names_of(const Rows& rows) {
  std::string text;
  for (const auto& row : rows) text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

}  // namespace

std::span<const Model> catalog_models() { return kModels; }
std::span<const GpuSpec> catalog_gpus() { return kGpus; }

const Model* find_model_or_null(const std::string& name) {
  for (const Model& model : kModels)
    if (model.name == name) return &model;
  return nullptr;
}

const Model& find_model(const std::string& name) {
  if (const Model* model = find_model_or_null(name)) return *model;
  throw Error("model", "'" + name + "'", names_of(kModels),
              "pick one of these, or give the model's config.json with --config");
}

const GpuSpec& find_gpu(const std::string& name) {
  for (const GpuSpec& gpu : kGpus)
    if (name == gpu.name || name == gpu.product) return gpu;
  throw Error("gpu", "'" + name + "'", names_of(kGpus), "pick one of these");
}

const GpuSpec& gpu_like(const std::string& product) {
  for (const GpuSpec& gpu : kGpus)
    if (product == gpu.product) return gpu;
  return find_gpu("h200");
}

}  // namespace ramp
