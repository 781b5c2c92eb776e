// SPDX-License-Identifier: Apache-2.0
// Seeded random damage to every format that this room parses: no crash, no hang, nothing but Error.
// tests/fuzz/ asks the same of a coverage-guided fuzzer.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "problem/arrivals.hpp"
#include "problem/counts_import.hpp"
#include "problem/model_config.hpp"
#include "problem/npy.hpp"
#include "problem/trace_file.hpp"
#include "problem/trace_import.hpp"
#include "problem/unpack.hpp"
#include "tests/problem/small_trace.hpp"

namespace ramp {
namespace {

std::string damaged(std::string bytes, Random& random, const std::vector<std::string>& others) {
  const int times = 1 + static_cast<int>(random.below(6));
  for (int i = 0; i < times && !bytes.empty(); ++i) {
    const std::size_t at = random.below(bytes.size());
    switch (random.below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(random.next());
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.erase(at, random.below(16));
        break;
      case 4:
        bytes.insert(at, bytes.substr(random.below(bytes.size()), random.below(64)));
        break;
      default: {
        const std::string& other = others[random.below(others.size())];
        if (!other.empty())
          bytes.replace(at, random.below(8),
                        other.substr(random.below(other.size()), random.below(32)));
      }
    }
  }
  return bytes;
}

// For a third of a second each; the counts are held so that the test can't pass by parsing nothing.
void bombard(const std::vector<std::string>& seeds,
             const std::function<void(const std::string&)>& parse) {
  for (const std::string& seed : seeds) ASSERT_NO_THROW(parse(seed));
  Random random(20261129);
  int accepted = 0, refused = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(330);
  while (std::chrono::steady_clock::now() < end || refused < 20) {
    const std::string bytes = damaged(seeds[random.below(seeds.size())], random, seeds);
    try {
      parse(bytes);
      ++accepted;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(accepted + refused, 50);
}

TEST(Mutations, OfTracesAreErrorsOrReported) {
  std::vector<std::string> seeds;
  TestFolder folder;
  for (const RoutingTrace& trace :
       {request_trace({9, 30}), pass_trace(2, 3, 4), request_trace({5}, 1, 300, 2, 2)}) {
    write_trace(trace, folder / "t.rtrace", 1);
    seeds.push_back(bytes_of(folder / "t.rtrace"));
  }
  TraceLimits limits;
  limits.max_ids = 1 << 22;
  bombard(seeds,
          [&](const std::string& bytes) { check_trace(read_trace_bytes(bytes, limits).trace); });
}

TEST(Mutations, OfArraysAreErrors) {
  const std::string data(2 * 40 * 3, '\5');
  std::vector<std::string> seeds = {npy_of("|u1", {2, 40, 3}, data), npy_of("<i2", {3, 40}, data),
                                    npy_of(">i4", {60}, data), npy_of("|i1", {240}, data, true)};
  bombard(seeds, [](const std::string& bytes) {
    const NpyArray array = parse_npy(bytes);
    std::int64_t last = 0;
    for (std::size_t axis = 0; axis < array.shape.size(); ++axis)
      last += (array.shape[axis] - 1) * array.strides[axis];
    if (array.size() > 0) array.at(last);
  });
  std::vector<std::string> zips = {
      zip_of({{"ids.npy", seeds[0]}, {"meta.json", R"({"experts":8})"}}, true),
      zip_of({{"a.npy", seeds[1]}, {"b", "x"}}, false)};
  bombard(zips, [](const std::string& bytes) {
    for (const ZipEntry& entry : zip_entries(bytes)) zip_read(bytes, entry, 1 << 20);
  });
}

TEST(Mutations, OfRecordsAreErrors) {
  const std::vector<std::string> lines = {
      R"({"experts":8,"layers":[1,2]})"
      "\n"
      R"({"request":"a","domain":"d","prompt":1,"ids":[[[0,1],[2,3]],[[4,5],[6,7]]]})",
      R"({"experts":8,"top_k":2,"layers":[0,1]})"
      "\n"
      R"({"routed_experts":"AAAAAAEAAAACAAAAAwAAAAQAAAAFAAAABgAAAAcAAAA="})"};
  bombard(lines, [](const std::string& text) { import_json_lines(text, {}); });
  Random random(2);
  ByteWriter data;
  for (const std::int16_t id : random_ids(40, 8, 2, random))
    data.put(static_cast<std::uint8_t>(id));
  const std::string npy = npy_of("|u1", {2, 20, 2}, data.take());
  bombard(
      {R"({"experts":8,"top_k":2,"layers":[1,2],"request_offsets":[0,7,20],"request_domain":["a","b"]})",
       R"({"experts":8,"phase":"prefill","pass_offsets":[0,7,20],"request_offsets":[0,20],"request_prompt":[3]})"},
      [&](const std::string& text) { import_npy(npy, text, {}); });
}

TEST(Mutations, OfArrivalsAndCountsAreErrors) {
  bombard({"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,374,44\n2023-11-16 "
           "18:17:04,396,109\n",
           "# source: x\nt_s,prompt_tokens,output_tokens\n0,1,2\n1.5,3,4\n",
           "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": "
           "[1]}\n{\"timestamp\": 30, \"input_length\": 1, \"output_length\": 2}\n"},
          [](const std::string& text) { parse_arrivals(text, "a"); });
  ImportOptions options;
  options.info.top_k = 2;
  bombard({R"({"logical_count": [[[2,1,1],[0,2,2]],[[1,1,0],[1,0,1]]]})",
           R"({"expert_load_window": [[[2,0,1,1]]], "physical_to_logical_map": [0,1,2,1]})"},
          [&](const std::string& text) {
            check_trace(trace_of_counts(parse_counts(text, "a"), options).trace);
          });
}

TEST(Mutations, OfModelConfigsAreErrors) {
  bombard(
      {R"({"model_type":"deepseek_v3","n_routed_experts":256,"num_experts_per_tok":8,"hidden_size":7168,
               "moe_intermediate_size":2048,"num_hidden_layers":61,"first_k_dense_replace":3,"n_group":8,"topk_group":4})",
       R"({"text_config":{"num_experts":[64,64],"moe_topk":8,"d_model":4096,"moe_intermediate_size":3072,
               "moe_layer_freq":[0,1,1]}})",
       R"({"d_model":6144,"ffn_config":{"moe_num_experts":16,"moe_top_k":4,"ffn_hidden_size":10752}})"},
      [](const std::string& text) { check_model(model_from_config(text)); });
}

}  // namespace
}  // namespace ramp
