// SPDX-License-Identifier: Apache-2.0
#include "lab/bench_records.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.hpp"

namespace ramp {
namespace {

using nlohmann::ordered_json;

BenchRecord record(int tokens, double us) {
  BenchRecord r;
  r.model = "olmoe";
  r.layout = "ep8";
  r.rank = "heaviest";
  r.tokens = tokens;
  r.load = "uniform";
  r.policy = "plan";
  r.entry = "f1-r8-c256-s6-w2-static";
  r.active_mb = 50.3;
  r.us = us;
  r.choice_us = 1.25;
  r.ffn_us = us - 2;
  r.stream_us = 12.5;
  r.floor_us = 12.29;
  r.rel_err = 0.0061;
  r.gpu = "NVIDIA H200";
  r.commit = "abc";
  r.date = "2026-11-29";
  r.layers = 32;
  return r;
}

// A path of its own, removed at the end.
struct TestFile {
  std::string path = testing::TempDir() + "bench_records_" +
                     testing::UnitTest::GetInstance()->current_test_info()->name() + ".json";
  TestFile() { std::filesystem::remove(path); }
  ~TestFile() { std::filesystem::remove(path); }
  std::string text() const {
    std::ifstream in(path);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }
};

TEST(BenchRecords, HaveExactlyTheAgreedFieldsInTheirOrder) {
  const ordered_json row = row_of(record(16, 14.2));
  std::string fields;
  for (const auto& [key, value] : row.items()) fields += key + " ";
  EXPECT_EQ(fields,
            "model layout rank tokens load mode policy entry active_mb us choice_us ffn_us "
            "stream_us floor_us rel_err gpu commit date ");
}

TEST(BenchRecords, ReplaceTheRowThatWasMeasuredAgainAndKeepTheOthers) {
  const TestFile file;
  merge_into_file(file.path, {record(16, 14.2), record(32, 15.0)});
  merge_into_file(file.path, {record(32, 13.0), record(64, 17.0)});
  const ordered_json read = ordered_json::parse(file.text());
  ASSERT_EQ(read["rows"].size(), 3u);
  EXPECT_EQ(read["rows"][0]["us"], 14.2);
  EXPECT_EQ(read["rows"][1]["us"], 13.0);
  EXPECT_EQ(read["rows"][2]["tokens"], 64);
  EXPECT_EQ(read["conditions"].size(), 3u);
  EXPECT_EQ(read["conditions"][key_of(read["rows"][1])]["layers"], 32);
}

TEST(BenchRecords, KeepAKeyOfARowApartByEveryPartOfIt) {
  const std::string key = key_of(row_of(record(16, 1)));
  EXPECT_EQ(key, "olmoe/ep8/heaviest/16/uniform/fast/plan");
  BenchRecord other = record(16, 1);
  other.policy = "best";
  EXPECT_NE(key, key_of(row_of(other)));
  other = record(16, 1);
  other.entry = "another";  // what was measured, not what it is a measurement of
  EXPECT_EQ(key, key_of(row_of(other)));
}

TEST(BenchRecords, ReadRowsWithoutConditionsAndFieldsThatOthersAdded) {
  ordered_json old = {{"rows", {row_of(record(16, 9))}}, {"note", "kept"}};
  old["rows"][0]["peers"] = {{"vllm", 30.0}};
  const ordered_json all = merged(old.dump(), "x", {record(32, 8)});
  EXPECT_EQ(all["rows"].size(), 2u);
  EXPECT_EQ(all["rows"][0]["peers"]["vllm"], 30.0);
  EXPECT_EQ(all["note"], "kept");
}

TEST(BenchRecords, RefuseFilesThatAreNoneAndLeaveThemAlone) {
  const TestFile file;
  for (const std::string text :
       {"not json", "[]", "{\"rows\": 3}", "{\"rows\": [{\"us\": 1}]}", "{\"rows\": [7]}"}) {
    std::ofstream(file.path) << text;
    try {
      merge_into_file(file.path, {record(16, 1)});
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(file.path), std::string::npos) << e.what();
    }
    EXPECT_EQ(file.text(), text);
  }
}

TEST(BenchRecords, WriteARowALine) {
  const TestFile file;
  merge_into_file(file.path, {record(16, 14.2), record(32, 15.0)});
  const std::string text = file.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 8);
  EXPECT_NE(text.find("\n{\"model\":\"olmoe\",\"layout\":\"ep8\""), std::string::npos);
}

}  // namespace
}  // namespace ramp
