// SPDX-License-Identifier: Apache-2.0
#include "problem/catalog.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/error.hpp"
#include "problem/layout.hpp"
#include "problem/model_config.hpp"
#include "tests/problem/small_trace.hpp"

namespace ramp {
namespace {

TEST(Catalog, EveryModelIsALayerAndHasItsOwnName) {
  std::set<std::string> names;
  for (const Model& model : catalog_models()) {
    EXPECT_NO_THROW(check_model(model)) << model.name;
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
  }
  EXPECT_EQ(names.size(), 14u);
}

// Table 1 of the paper: E, k, h.
TEST(Catalog, HasTable1) {
  struct Row {
    const char* name;
    int experts, top_k, intermediate;
  };
  for (const Row& row :
       {Row{"olmoe", 64, 8, 1024}, Row{"qwen15", 60, 4, 1408}, Row{"qwen2-57b", 64, 8, 2560},
        Row{"qwen3-30b", 128, 8, 768}, Row{"qwen35-35b", 256, 8, 512}, Row{"phi35", 16, 2, 6400},
        Row{"mixtral", 8, 2, 16384}, Row{"deepseek-v3", 256, 8, 2048}}) {
    const MoeShape& shape = find_model(row.name).shape;
    EXPECT_EQ(shape.experts, row.experts) << row.name;
    EXPECT_EQ(shape.top_k, row.top_k) << row.name;
    EXPECT_EQ(shape.intermediate, row.intermediate) << row.name;
  }
}

TEST(Catalog, RefusesGptOssLayersWithAReasonAndKeepsItsRouting) {
  const Model& model = find_model("gptoss-20b");
  EXPECT_NE(model.refusal.find("clamped SwiGLU"), std::string::npos);
  EXPECT_EQ(model.shape.experts, 32);
  int refused = 0;
  for (const Model& other : catalog_models()) refused += !other.refusal.empty();
  EXPECT_EQ(refused, 1);
}

TEST(Catalog, NamesItsModelsWhenOneIsUnknown) {
  const std::string text = error_of([] { find_model("olmo"); });
  EXPECT_NE(text.find("'olmo'"), std::string::npos);
  EXPECT_NE(text.find("qwen3-30b"), std::string::npos);
  EXPECT_NE(text.find("--config"), std::string::npos);
}

TEST(Catalog, FindsAGpuByItsShortNameAndTheDriversName) {
  EXPECT_EQ(find_gpu("h200").sms, 132);
  EXPECT_EQ(&find_gpu("NVIDIA H200"), &find_gpu("h200"));
  EXPECT_TRUE(find_gpu("h200").measured);
  EXPECT_FALSE(find_gpu("h20").measured);
  EXPECT_THROW(find_gpu("a100"), Error);
}

// The limit used everywhere: what the catalog says of an H200 is what floor_us says.
TEST(Catalog, H200AgreesWithTheFloorsFormula) {
  const GpuSpec& gpu = find_gpu("h200");
  const LocalShape local{16, 8, 2048, 768};
  const double bytes = 16.0 * expert_bytes(2048, 768);
  EXPECT_NEAR(floor_us(local, 16, 64), gpu.stream_start_us + 1e-6 * bytes / gpu.stream_tbps, 1e-9);
}

TEST(ModelConfig, ReadsTheSpellingsOfManyArchitectures) {
  struct Case {
    const char* text;
    MoeShape want;
    int layers, first;
  };
  const Case cases[] = {
      {R"({"model_type":"olmoe","num_experts":64,"num_experts_per_tok":8,"hidden_size":2048,
           "intermediate_size":1024,"num_hidden_layers":16})",
       {64, 8, 2048, 1024},
       16,
       0},
      {R"({"model_type":"deepseek_v3","n_routed_experts":256,"num_experts_per_tok":8,"hidden_size":7168,
           "moe_intermediate_size":2048,"intermediate_size":18432,"num_hidden_layers":61,"first_k_dense_replace":3,
           "n_group":8,"topk_group":4,"moe_layer_freq":1,"hidden_act":"silu"})",
       {256, 8, 7168, 2048},
       58,
       3},
      {R"({"model_type":"mixtral","num_local_experts":8,"num_experts_per_tok":2,"hidden_size":6144,
           "intermediate_size":16384,"num_hidden_layers":56})",
       {8, 2, 6144, 16384},
       56,
       0},
      {R"({"model_type":"x","text_config":{"num_experts":256,"num_experts_per_tok":8,"hidden_size":2048,
           "moe_intermediate_size":512,"num_hidden_layers":40}})",
       {256, 8, 2048, 512},
       40,
       0},
      {R"({"model_type":"dbrx","d_model":6144,"n_layers":40,
           "ffn_config":{"moe_num_experts":16,"moe_top_k":4,"ffn_hidden_size":10752}})",
       {16, 4, 6144, 10752},
       40,
       0},
      {R"({"num_experts":64,"moe_topk":[8,8],"hidden_size":4096,"moe_intermediate_size":[3072,3072],
           "num_hidden_layers":2})",
       {64, 8, 4096, 3072},
       2,
       0},
      {R"({"num_experts":16,"num_experts_per_tok":2,"hidden_size":4096,"intermediate_size":14336,
           "num_hidden_layers":8,"expert_layer_period":2,"expert_layer_offset":1})",
       {16, 2, 4096, 14336},
       4,
       1},
      {R"({"num_experts":60,"num_experts_per_tok":4,"hidden_size":2048,"moe_intermediate_size":1408,
           "num_hidden_layers":24,"decoder_sparse_step":2,"mlp_only_layers":[1]})",
       {60, 4, 2048, 1408},
       11,
       3},
      {R"({"num_local_experts":128,"num_experts_per_tok":1,"hidden_size":5120,"intermediate_size":8192,
           "num_hidden_layers":4,"moe_layer_freq":[0,1,1,1]})",
       {128, 1, 5120, 8192},
       3,
       1},
  };
  for (const Case& c : cases) {
    const Model model = model_from_config(c.text);
    EXPECT_EQ(model.shape.experts, c.want.experts) << c.text;
    EXPECT_EQ(model.shape.top_k, c.want.top_k) << c.text;
    EXPECT_EQ(model.shape.hidden, c.want.hidden) << c.text;
    EXPECT_EQ(model.shape.intermediate, c.want.intermediate) << c.text;
    EXPECT_EQ(model.moe_layers, c.layers) << c.text;
    EXPECT_EQ(model.first_moe_layer, c.first) << c.text;
    EXPECT_EQ(model.refusal, "") << c.text;
  }
  EXPECT_EQ(model_from_config(cases[1].text).groups, 8);
  EXPECT_EQ(model_from_config(cases[1].text).groups_kept, 4);
}

TEST(ModelConfig, TakesWhatIsMissingFromTheCommandLine) {
  const char* text =
      R"({"num_experts":64,"num_experts_per_tok":8,"hidden_size":2048,"num_hidden_layers":16})";
  const std::string error = error_of([&] { model_from_config(text); });
  EXPECT_NE(error.find("moe_intermediate_size"), std::string::npos) << error;
  EXPECT_NE(error.find("--inter"), std::string::npos) << error;
  ModelOverrides overrides;
  overrides.intermediate = 1024;
  EXPECT_EQ(model_from_config(text, overrides).shape.intermediate, 1024);
  overrides.experts = 32;  // given by hand wins over the file
  EXPECT_EQ(model_from_config(text, overrides).shape.experts, 32);
}

TEST(ModelConfig, NamesWhyALayerIsRefused) {
  const std::string base =
      R"("num_experts":8,"num_experts_per_tok":2,"hidden_size":256,"intermediate_size":256)";
  EXPECT_NE(model_from_config(R"({"model_type":"gpt_oss",)" + base + "}").refusal, "");
  EXPECT_NE(model_from_config(R"({"swiglu_limit":7.0,)" + base + "}").refusal, "");
  EXPECT_NE(model_from_config(R"({"mlp_bias":true,)" + base + "}").refusal, "");
  EXPECT_NE(model_from_config(R"({"hidden_act":"gelu",)" + base + "}").refusal.find("gelu"),
            std::string::npos);
}

TEST(ModelConfig, RefusesNonsense) {
  for (
      const char* text :
      {"", "[]", "{", "null", "{}", R"({"num_experts":0})", R"({"num_experts":-3})",
       R"({"num_experts":1e30,"num_experts_per_tok":8,"hidden_size":1,"intermediate_size":1})",
       R"({"num_experts":18446744073709551615})", R"({"num_experts":3.5})",
       R"({"num_experts":[8,16],"num_experts_per_tok":2,"hidden_size":256,"intermediate_size":256})",
       R"({"num_experts":4,"num_experts_per_tok":8,"hidden_size":256,"intermediate_size":256})",
       R"({"num_experts":8,"num_experts_per_tok":2,"hidden_size":256,"intermediate_size":256,
               "num_hidden_layers":4,"first_k_dense_replace":4})",
       R"({"num_experts":8,"num_experts_per_tok":2,"hidden_size":256,"intermediate_size":256,
               "num_hidden_layers":1000000000})",
       R"({"num_experts":8,"num_experts_per_tok":2,"hidden_size":256,"intermediate_size":256,
               "n_group":3,"topk_group":1})"})
    EXPECT_THROW(model_from_config(text), Error) << text;
  EXPECT_THROW(model_from_config(std::string(5u << 20, ' ')), Error);
  // Deeper than any stack would like.
  EXPECT_THROW(model_from_config(std::string(1'000'000, '[')), Error);
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_THROW(model_from_config(R"({"num_experts":)" + deep + "}"), Error);
  EXPECT_THROW(model_from_config(R"({"num_experts":[)" + deep + "," + deep + "]}"), Error);
}

}  // namespace
}  // namespace ramp
