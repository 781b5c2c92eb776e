// SPDX-License-Identifier: Apache-2.0
#include "problem/arrivals.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/problem/small_trace.hpp"

namespace ramp {
namespace {

void expect_requests(const ArrivalTrace& trace, const std::vector<Arrival>& want) {
  ASSERT_EQ(trace.requests.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(trace.requests[i].time_s, want[i].time_s, 1e-6) << i;
    EXPECT_EQ(trace.requests[i].prompt, want[i].prompt) << i;
    EXPECT_EQ(trace.requests[i].output, want[i].output) << i;
  }
}

TEST(Arrivals, ReadsAzureWithItsDates) {
  const ArrivalTrace trace = parse_arrivals(
      "\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 23:59:59.5000000,374,44\r\n"
      "2023-11-17 00:00:01.2500000,396,109\r\n",
      "azure");
  EXPECT_EQ(trace.format, "azure");
  expect_requests(trace, {{0, 374, 44}, {1.75, 396, 109}});
  // The traces of 2024 carry a zone, and a leap day may lie between.
  const ArrivalTrace zones = parse_arrivals(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2024-02-29 00:00:00.5+00:00,1,2\n2024-03-01T02:00:00.5+02:00,3,4\n",
      "azure");
  expect_requests(zones, {{0, 1, 2}, {86400, 3, 4}});
}

TEST(Arrivals, ReadsMooncakeInMillisecondsAndSortsByTime) {
  const ArrivalTrace trace = parse_arrivals(
      R"({"timestamp": 3000, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]})"
      "\n"
      R"({"timestamp": 1000, "input_length": 7, "output_length": 1, "hash_ids": []})"
      "\n",
      "mooncake");
  EXPECT_EQ(trace.format, "mooncake");
  expect_requests(trace, {{0, 7, 1}, {2, 6955, 52}});
  EXPECT_DOUBLE_EQ(trace.rate(), 0.5);
  expect_requests(
      parse_arrivals(R"([{"t_s": 1.5, "prompt_tokens": 3, "output_tokens": 4}])", "list"),
      {{0, 3, 4}});
}

TEST(Arrivals, ReadsOtherColumnsInAnyOrder) {
  expect_requests(parse_arrivals("Timestamp,Model,Request tokens,Response tokens,Total tokens\n"
                                 "5,ChatGPT,472,18,490\n45,ChatGPT,10,0,10\n50,GPT-4,0,0,0\n",
                                 "burstgpt"),
                  {{0, 472, 18}, {40, 10, 0}});
  expect_requests(
      parse_arrivals("num_decode_tokens,arrived_at,num_prefill_tokens\n9,0.25,8\n", "vidur"),
      {{0, 8, 9}});
}

TEST(Arrivals, ItsOwnFormatKeepsSourceAndLicence) {
  ArrivalTrace trace;
  trace.source = "somewhere @ 1";
  trace.licence = "CC-BY-4.0";
  trace.requests = {{0, 5, 6}, {1.25, 7, 8}};
  TestFolder folder;
  write_bytes(folder / "a.csv.gz", gzip_of(arrivals_csv(trace)));
  const ArrivalTrace read = read_arrivals(folder / "a.csv.gz");
  EXPECT_EQ(read.name, "a");
  EXPECT_EQ(read.format, "ramp");
  EXPECT_EQ(read.source, trace.source);
  EXPECT_EQ(read.licence, trace.licence);
  expect_requests(read, trace.requests);
}

TEST(Arrivals, RefusesWithLineValueAndWhatIsAllowed) {
  const std::string header = "t_s,prompt_tokens,output_tokens\n";
  for (const auto& [text, complaint] : std::vector<std::pair<std::string, std::string>>{
           {"", "ContextTokens"},
           {"a,b,c\n1,2,3\n", "a header without a time"},
           {"t_s,prompt_tokens\n1,2\n", "a header without an output"},
           {header, "no request with a token"},
           {header + "0,1,1\n1,-2,3\n", "line 3"},
           {header + "0,1.5,1\n", "1.5 tokens"},
           {header + "0,1\n", "2 fields"},
           {header + "x,1,1\n", "no such time"},
           {header + "nan,1,1\n", "no such time"},
           {header + "0,99999999,1\n", "10,000,000"},
           {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-16 00:00:00,1,1\n", "no such time"},
           {"{\"timestamp\": 1}\n", "without one of them"},
           {"{\"timestamp\": \"1\", \"input_length\": 1, \"output_length\": 1}", "a number"},
           {"{oops", "no JSON"},
           {"[1]", "one JSON object a request"}}) {
    const std::string error = error_of([&, t = text] { parse_arrivals(t, "bad"); });
    EXPECT_NE(error.find(complaint), std::string::npos) << text << ": " << error;
  }
}

// The repository's own, which the examples name.
TEST(Arrivals, ShippedOnesSayWhereTheyComeFrom) {
  for (const auto& [name, requests, rate] : {std::tuple{"azure2023_conv", 19366u, 5.5},
                                             {"mooncake_conversation", 12031u, 3.4},
                                             {"sharegpt300_qwen3_10rps", 300u, 10.0}}) {
    const ArrivalTrace trace =
        read_arrivals(std::string(RAMP_SOURCE_DIR) + "/data/arrivals/" + name + ".csv.gz");
    EXPECT_EQ(trace.requests.size(), requests) << name;
    EXPECT_NEAR(trace.rate(), rate, 0.1 * rate) << name;
    EXPECT_NE(trace.source.find("@"), std::string::npos) << name;
    EXPECT_NE(trace.licence, "") << name;
  }
}

}  // namespace
}  // namespace ramp
