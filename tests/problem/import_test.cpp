// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "problem/npy.hpp"
#include "problem/trace_import.hpp"
#include "problem/unpack.hpp"
#include "tests/problem/small_trace.hpp"

namespace ramp {
namespace {

ImportOptions options_of(int experts, int top_k = 0) {
  ImportOptions options;
  options.info.experts = experts;
  options.info.top_k = top_k;
  return options;
}

template <class T>
std::string packed(const std::vector<T>& values) {
  ByteWriter out;
  for (const T value : values) out.put(value);
  return out.take();
}

// [layer 2][token 3][k 2], E = 8
const std::vector<std::uint8_t> kIds = {0, 1, 2, 3, 4, 5, 6, 7, 1, 3, 5, 7};

TEST(Npy, ReadsEveryIntegerTypeAndByteOrder) {
  auto first = [](const std::string& npy) { return parse_npy(npy).at(0); };
  EXPECT_EQ(first(npy_of("|u1", {1}, "\xff")), 255);
  EXPECT_EQ(first(npy_of("|i1", {1}, "\xff")), -1);
  EXPECT_EQ(first(npy_of("<i2", {1}, std::string("\xfe\xff", 2))), -2);
  EXPECT_EQ(first(npy_of(">u2", {1}, std::string("\x01\x02", 2))), 258);
  EXPECT_EQ(first(npy_of("<i4", {1}, std::string("\x00\x00\x00\x80", 4))), INT32_MIN);
  EXPECT_EQ(first(npy_of(">i8", {1}, std::string("\x00\x00\x00\x00\x00\x00\x00\x07", 8))), 7);
}

TEST(Npy, RefusesWhatIsNoArrayOfIntegers) {
  const std::string whole = npy_of("<i4", {2, 3}, std::string(24, '\1'));
  EXPECT_EQ(parse_npy(whole).size(), 6);
  for (std::size_t cut = 0; cut < whole.size(); ++cut)
    EXPECT_THROW(parse_npy(std::string_view(whole).substr(0, cut)), Error) << cut;
  for (const char* descr : {"<f4", "<i3", "|O", "<U8", "|b1", "<c8", "i4", "<i16"})
    EXPECT_THROW(parse_npy(npy_of(descr, {1}, std::string(16, 0))), Error) << descr;
  EXPECT_THROW(parse_npy(npy_of("|u1", {1ll << 40, 1ll << 40}, "x")), Error);
  EXPECT_THROW(parse_npy(npy_of("|u1", {1, 1, 1, 1, 1, 1, 1, 1, 1}, "x")), Error);
  EXPECT_EQ(parse_npy(npy_of("|u1", {0, 1ll << 50, 1ll << 50}, "")).size(), 0);
}

TEST(Import, ReadsLayerTokenK) {
  const ImportedTrace in = import_npy(npy_of("|u1", {2, 3, 2}, packed(kIds)), "", options_of(8));
  EXPECT_EQ(in.trace.tokens(), 3);
  EXPECT_EQ(in.trace.layers(), 2);
  EXPECT_EQ(in.trace.row(0, 0)[1], 1);
  EXPECT_EQ(in.trace.row(0, 1)[0], 6);
  EXPECT_EQ(in.trace.row(2, 1)[1], 7);
  EXPECT_EQ(in.report.rows, 6);
  EXPECT_EQ(in.report.highest_id, 7);
}

TEST(Import, TheSameIdsInAnyDressGiveTheSameTrace) {
  const auto want = import_npy(npy_of("|u1", {2, 3, 2}, packed(kIds)), "", options_of(8)).trace.ids;
  std::vector<std::int32_t> wide(kIds.begin(), kIds.end());
  EXPECT_EQ(import_npy(npy_of("<i4", {2, 3, 2}, packed(wide)), "", options_of(8)).trace.ids, want);
  // [token][layer][k]
  std::vector<std::uint8_t> turned;
  for (int t = 0; t < 3; ++t)
    for (int l = 0; l < 2; ++l)
      for (int j = 0; j < 2; ++j) turned.push_back(kIds[l * 6 + t * 2 + j]);
  ImportOptions token_first = options_of(8);
  token_first.order = AxisOrder::kTokenLayerK;
  EXPECT_EQ(import_npy(npy_of("|u1", {3, 2, 2}, packed(turned)), "", token_first).trace.ids, want);
  // Fortran order
  std::vector<std::uint8_t> fortran;
  for (int j = 0; j < 2; ++j)
    for (int t = 0; t < 3; ++t)
      for (int l = 0; l < 2; ++l) fortran.push_back(kIds[l * 6 + t * 2 + j]);
  EXPECT_EQ(
      import_npy(npy_of("|u1", {2, 3, 2}, packed(fortran), true), "", options_of(8)).trace.ids,
      want);
  for (const bool deflated : {false, true})
    EXPECT_EQ(import_npz(zip_of({{"ids.npy", npy_of("|u1", {2, 3, 2}, packed(kIds))}}, deflated),
                         options_of(8))
                  .trace.ids,
              want);
  EXPECT_EQ(
      import_json_lines(R"({"ids":[[[0,1],[6,7]],[[2,3],[1,3]],[[4,5],[5,7]]]})", options_of(8))
          .trace.ids,
      want);
  EXPECT_EQ(import_json_lines(R"({"id":1,"routed_experts":[[[0,1],[6,7]]]}
                                 {"id":1,"routed_experts":[[[2,3],[1,3]],[[4,5],[5,7]]]})",
                              options_of(8))
                .trace.ids,
            want);
}

TEST(Import, TakesRequestsPassesAndLayersFromTheSidecar) {
  const std::string npy = npy_of("|u1", {2, 3, 2}, packed(kIds));
  const char* sidecar =
      R"({"model":"some model","experts":8,"top_k":2,"layers":[4,9],"phase":"decode only",
      "request_offsets":[0,1,3],"request_domain":["a","b"],"pass_offsets":[0,2,3]})";
  const RoutingTrace trace = import_npy(npy, sidecar, {}).trace;
  EXPECT_EQ(trace.info.layers, (std::vector<int>{4, 9}));
  EXPECT_EQ(trace.info.model, "some model");
  EXPECT_EQ(trace.info.phase, TracePhase::kDecode);
  ASSERT_EQ(trace.requests.size(), 2u);
  EXPECT_EQ(trace.requests[1].tokens, 2);
  EXPECT_EQ(trace.domains[trace.requests[1].domain], "b");
  EXPECT_EQ(trace.requests[1].prompt, 0);
  EXPECT_EQ(trace.passes(), 2);
  // Prefill: all of it is prompt.
  const RoutingTrace prefill =
      import_npy(npy, R"({"experts":8,"phase":"prefill","request_offsets":[0,1,3]})", {}).trace;
  EXPECT_EQ(prefill.requests[1].prompt, 2);
  EXPECT_EQ(prefill.info.layers, (std::vector<int>{0, 1}));
}

TEST(Import, NumbersTheLayersByTheCatalogWhereTheyAreOnlyCounted) {
  std::vector<std::uint8_t> ids;
  for (int layer = 0; layer < 26; ++layer)
    for (int j = 0; j < 6; ++j) ids.push_back(static_cast<std::uint8_t>((layer + 7 * j) % 64));
  ImportOptions options;
  options.info.model = "dsv2-lite";
  const TraceInfo info = import_npy(npy_of("|u1", {26, 1, 6}, packed(ids)), "", options).trace.info;
  EXPECT_EQ(info.layers.front(), 1);
  EXPECT_EQ(info.layers.back(), 26);
  EXPECT_EQ(info.experts, 64);
}

TEST(Import, RefusesASidecarThatContradictsTheArray) {
  const std::string npy = npy_of("|u1", {2, 3, 2}, packed(kIds));
  for (const char* sidecar :
       {"{", "[]", R"({"experts":8,"request_offsets":[0,2]})",
        R"({"experts":8,"request_offsets":[0,2,1,3]})", R"({"experts":8,"request_offsets":[1,3]})",
        R"({"experts":8,"request_offsets":[0,1,3],"request_domain":["a"]})",
        R"({"experts":8,"pass_offsets":[0,4]})", R"({"experts":8,"request_offsets":"no"})",
        R"({"experts":8,"request_offsets":[0,1,3],"request_prompt":[2,0]})",
        R"({"experts":8,"layers":[1]})", R"({"experts":8,"layers":[2,1]})", R"({"experts":"8"})",
        R"({"experts":8,"top_k":3})", R"({"experts":-8})", "{}"})
    EXPECT_THROW(import_npy(npy, sidecar, {}), Error) << sidecar;
}

TEST(Import, RefusesIdsThatAreNoExpertsUnlessForced) {
  const std::string npy = npy_of("|u1", {2, 3, 2}, packed(kIds));
  const std::string error = error_of([&] { import_npy(npy, "", options_of(6)); });
  EXPECT_NE(error.find("3 ids outside -1 .. 5"), std::string::npos) << error;
  EXPECT_NE(error.find("id 6 at token 0, layer 1"), std::string::npos) << error;
  EXPECT_NE(error.find("--force"), std::string::npos) << error;
  ImportOptions force = options_of(6);
  force.force = true;
  const ImportedTrace forced = import_npy(npy, "", force);
  EXPECT_EQ(forced.report.out_of_range, 3);
  EXPECT_EQ(forced.trace.row(0, 1)[0], -1);
  EXPECT_EQ(forced.trace.row(0, 0)[1], 1);
}

TEST(Import, CountsMinusOneAsPaddingAndNotAsAnError) {
  const std::vector<std::int16_t> ids = {0, 1, -1, -1, 2, 3};
  const ImportedTrace in = import_npy(npy_of("<i2", {1, 3, 2}, packed(ids)), "", options_of(8));
  EXPECT_EQ(in.report.padding, 2);
  EXPECT_EQ(in.report.out_of_range, 0);
  EXPECT_EQ(in.trace.row(1, 0)[0], -1);
}

TEST(Import, RefusesRowsThatNameAnExpertTwice) {
  std::vector<std::uint8_t> ids;
  for (int t = 0; t < 50; ++t) {
    ids.push_back(static_cast<std::uint8_t>(t % 8));
    ids.push_back(static_cast<std::uint8_t>(t % 5 == 0 ? t % 8 : (t + 3) % 8));
  }
  const std::string npy = npy_of("|u1", {1, 50, 2}, packed(ids));
  EXPECT_NE(error_of([&] {
              import_npy(npy, "", options_of(8));
            }).find("10 of 50 rows name an expert twice"),
            std::string::npos);
  ImportOptions force = options_of(8);
  force.force = true;
  const ImportedTrace forced = import_npy(npy, "", force);
  EXPECT_EQ(forced.trace.row(0, 0)[0], 0);
  EXPECT_EQ(forced.trace.row(0, 0)[1], -1);  // the repeat
}

TEST(Import, RefusesADummyBatch) {
  std::vector<std::uint8_t> ids;
  for (int t = 0; t < 64; ++t)
    for (int j = 0; j < 4; ++j) ids.push_back(static_cast<std::uint8_t>(j));
  const std::string error = error_of([&] {
    import_npy(npy_of("|u1", {1, 64, 4}, packed(ids)), "", options_of(16));
  });
  EXPECT_NE(error.find("100 % of rows equal the row before"), std::string::npos) << error;
  EXPECT_NE(error.find("every row is the same in layer rows 0"), std::string::npos) << error;
  // A router without a choice (k = E) is not accused.
  EXPECT_NO_THROW(import_npy(
      npy_of("|u1", {1, 16, 4}, packed(std::vector<std::uint8_t>(ids.begin(), ids.begin() + 64))),
      "", options_of(4)));
}

// "layers 10-26" of one public record are byte copies of its real ones.
TEST(Import, RefusesLayersThatAreCopies) {
  Random random(3);
  std::vector<std::int16_t> layer = random_ids(64, 16, 4, random), ids = layer;
  ids.insert(ids.end(), layer.begin(), layer.end());
  const std::string error = error_of([&] {
    import_npy(npy_of("<i2", {2, 64, 4}, packed(ids)), "", options_of(16));
  });
  EXPECT_NE(error.find("layer rows 1 are copies"), std::string::npos) << error;
}

TEST(Import, SuspectsAnEThatIsTooLarge) {
  Random random(3);
  const std::vector<std::int16_t> ids = random_ids(2000, 16, 8, random);
  EXPECT_NE(error_of([&] {
              import_npy(npy_of("<i2", {1, 2000, 8}, packed(ids)), "", options_of(64));
            }).find("no id above 15 although E = 64"),
            std::string::npos);
}

TEST(Import, RefusesSumsAndShapesThatHoldNoTokens) {
  EXPECT_THROW(import_npy(npy_of("<u4", {4}, std::string(16, 0)), "", options_of(8)), Error);
  EXPECT_THROW(import_npy(npy_of("<u4", {1, 2, 128}, std::string(1024, 0)), "", options_of(128)),
               Error);
  EXPECT_THROW(import_npy(npy_of("|u1", {2, 0, 2}, ""), "", options_of(8)), Error);
  EXPECT_THROW(import_npy(npy_of("|u1", {2, 3, 2}, packed(kIds)), "", {}), Error);  // E unknown
}

TEST(Import, ThinsRequestsEvenlyAndSaysWhatItDropped) {
  Random random(9);
  std::vector<std::int16_t> ids = random_ids(100, 16, 4, random);
  std::string offsets = "0", domains;
  for (int r = 1; r <= 20; ++r) {
    offsets += "," + std::to_string(5 * r);
    domains += std::string(r == 1 ? "" : ",") + (r <= 15 ? "\"a\"" : "\"b\"");
  }
  ImportOptions options = options_of(16);
  options.requests_per_domain = 5;
  const ImportedTrace in = import_npy(
      npy_of("<i2", {1, 100, 4}, packed(ids)),
      R"({"request_offsets":[)" + offsets + R"(],"request_domain":[)" + domains + "]}", options);
  ASSERT_EQ(in.trace.requests.size(), 10u);
  EXPECT_EQ(in.report.dropped_requests, 10);
  EXPECT_EQ(in.report.dropped_tokens, 50);
  EXPECT_EQ(in.trace.tokens(), 50);
  // The second one kept is the file's fourth.
  EXPECT_EQ(in.trace.row(in.trace.requests[1].first, 0)[0], ids[15 * 4]);
}

TEST(Import, CutsARecordIntoPassesWhenAsked) {
  ImportOptions options = options_of(8);
  options.pass_tokens = 2;
  const RoutingTrace trace = import_npy(npy_of("|u1", {2, 3, 2}, packed(kIds)), "", options).trace;
  EXPECT_EQ(trace.pass_offsets, (std::vector<std::int64_t>{0, 2, 3}));
  EXPECT_THROW(
      import_npy(npy_of("|u1", {2, 3, 2}, packed(kIds)), R"({"pass_offsets":[0,3]})", options),
      Error);
}

TEST(Import, ReadsJsonLinesWithRequestsThatInterleave) {
  const RoutingTrace trace =
      import_json_lines(R"({"experts":8,"model":"m","layers":[2,5],"source":"somewhere"}
{"request":"a","domain":"math","prompt":2,"ids":[[[0,1],[2,3]],[[4,5],[6,7]]]}

{"request":"b","domain":"code","ids":[[[1,2],[3,4]]]}
{"request":"a","ids":[[[0,7],[1,6]]]}
)",
                        {})
          .trace;
  EXPECT_EQ(trace.info.layers, (std::vector<int>{2, 5}));
  EXPECT_EQ(trace.info.source, "somewhere");
  ASSERT_EQ(trace.requests.size(), 2u);
  EXPECT_EQ(trace.requests[0].tokens, 3);
  EXPECT_EQ(trace.requests[0].prompt, 2);
  EXPECT_EQ(trace.token_of(trace.requests[0], 2), 3);
  EXPECT_EQ(trace.row(3, 0)[1], 7);
  EXPECT_EQ(trace.domains[trace.requests[1].domain], "code");
}

// SGLang returns base64 of int32, [token, layer, k], without a shape.
TEST(Import, ReadsBase64OfInt32) {
  // 0,1,2,3 | 4,5,6,7 : two tokens, two layers, k = 2
  const std::string text = "AAAAAAEAAAACAAAAAwAAAAQAAAAFAAAABgAAAAcAAAA=";
  ImportOptions options = options_of(8, 2);
  options.info.layers = {0, 1};
  const RoutingTrace trace =
      import_json_lines("{\"routed_experts\":\"" + text + "\"}", options).trace;
  EXPECT_EQ(trace.tokens(), 2);
  EXPECT_EQ(trace.row(1, 1)[1], 7);
  EXPECT_THROW(import_json_lines("{\"routed_experts\":\"" + text + "\"}", options_of(8)), Error);
  EXPECT_THROW(import_json_lines("{\"routed_experts\":\"AAAAAA==\"}", options), Error);
  EXPECT_THROW(import_json_lines("{\"routed_experts\":\"A*AA\"}", options), Error);
}

TEST(Import, NamesTheLineThatIsWrong) {
  const std::string error = error_of(
      [] { import_json_lines("{\"ids\":[[[0,1]]]}\n{\"ids\":[[[0,1],[2,3]]]}\n", options_of(8)); });
  EXPECT_NE(error.find("line 2"), std::string::npos) << error;
  for (const char* text :
       {"{\"ids\":3}", "{\"ids\":[3]}", "{\"ids\":[[3]]}", "{\"ids\":[[[]]]}",
        "{\"ids\":[[[0.5,1]]]}", "{\"ids\":[[[\"a\"]]]}", "not json", "[]", "{}", "{\"ids\":[]}"})
    EXPECT_THROW(import_json_lines(text, options_of(8)), Error) << text;
}

TEST(Import, FindsTheSidecarBesideTheArray) {
  TestFolder folder;
  write_bytes(folder / "x.ids.npy.gz", gzip_of(npy_of("|u1", {2, 3, 2}, packed(kIds))));
  EXPECT_THROW(import_trace(folder / "x.ids.npy.gz", {}), Error);
  write_bytes(folder / "x.json", R"({"experts":8})");
  EXPECT_EQ(import_trace(folder / "x.ids.npy.gz", {}).trace.tokens(), 3);
  ImportOptions other;
  other.sidecar = folder / "missing.json";
  EXPECT_THROW(import_trace(folder / "x.ids.npy.gz", other), Error);
  write_bytes(folder / "y.bin", "hello");
  EXPECT_THROW(import_trace(folder / "y.bin", {}), Error);
}

TEST(Unpack, NoticesDamageAndLimits) {
  const std::string raw(100'000, 'a');
  const std::string packed_bytes = gzip_of(raw);
  EXPECT_EQ(gunzip(packed_bytes), raw);
  EXPECT_EQ(gunzip(packed_bytes + packed_bytes), raw + raw);
  EXPECT_THROW(gunzip(packed_bytes, 99'999), Error);
  EXPECT_EQ(gunzip(packed_bytes, 100'000), raw);
  for (std::size_t cut = 0; cut < packed_bytes.size(); ++cut)
    EXPECT_THROW(gunzip(std::string_view(packed_bytes).substr(0, cut)), Error);
  std::string zip = zip_of({{"a", raw}, {"b", "xyz"}}, true);
  const auto entries = zip_entries(zip);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(zip_read(zip, entries[1]), "xyz");
  EXPECT_EQ(zip_read(zip, entries[0]), raw);
  EXPECT_THROW(zip_read(zip, entries[0], 10), Error);
  for (std::size_t cut = 0; cut < zip.size(); ++cut)
    EXPECT_THROW(zip_entries(zip.substr(0, cut)), Error);
  zip[40] ^= 1;
  EXPECT_THROW(zip_read(zip, entries[0]), Error);
}

}  // namespace
}  // namespace ramp
