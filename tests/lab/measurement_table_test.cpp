// SPDX-License-Identifier: Apache-2.0
#include "lab/measurement_table.hpp"

#include <gtest/gtest.h>

#include "tests/lab/measured_example.hpp"

namespace ramp {
namespace {

MeasuredSpace example() {
  const Workload workload = example_workload(20);
  MeasuredSpace space{.provenance = workload.provenance,
                      .shape = workload.shape,
                      .gpus = workload.gpus,
                      .loads = workload.loads,
                      .passes = workload.passes};
  space.provenance.gpu = "NVIDIA H200";
  for (int rows : {8, 64}) space.candidates.push_back(example_config(rows, 4).candidate);
  space.samples.assign(2, std::vector<std::vector<float>>(space.loads.size()));
  for (std::size_t l = 0; l < space.loads.size(); ++l)
    space.samples[l % 2][l] = {1.0f / 3 + l, 10.1f + l};
  return space;
}

TEST(MeasurementTable, ReadsBackBitForBitBesideItsPasses) {
  const MeasuredSpace space = example();
  const MeasuredSpace read = parse_table(table_text(space), "a.tsv", &space);
  MeasuredSpace expected = space;
  expected.provenance.sources = read.provenance.sources;  // unknown
  expect_equal(read, expected);
  EXPECT_EQ(read.provenance.how.rfind("imported from a.tsv", 0), 0u);
}

TEST(MeasurementTable, ForeignKernelsComeInWithFourColumns) {
  const MeasuredSpace space = parse_table(
      "# gpu: NVIDIA H200\n# model: olmoe\n# top_k: 2\n# hidden: 2048\n# intermediate: 1024\n\n"
      "us,config,load,grid\n"
      "12.5,triton-16,3 9 0 0,16x8x132\n"
      "\"12.75 12.25\",triton-16,\"9 3 0 0\",16x8x132\r\n"
      "14,triton-64,9 3 0 0,64x8x132\n",
      "table.csv", nullptr);
  EXPECT_EQ(space.provenance.gpu, "NVIDIA H200");
  EXPECT_EQ(space.provenance.driver, "unknown");
  EXPECT_EQ(space.shape.experts, 4);
  ASSERT_EQ(space.loads.size(), 1u);
  EXPECT_EQ(space.loads[0], (std::vector<int>{9, 3, 0, 0}));
  EXPECT_EQ(space.samples[0][0], (std::vector<float>{12.5f, 12.75f, 12.25f}));
  EXPECT_EQ(space.samples[1][0], (std::vector<float>{14}));
  ASSERT_EQ(space.passes.size(), 1u);
  EXPECT_EQ(space.passes[0].tokens, 6);
}

TEST(MeasurementTable, TimesOfOtherLoadsJoinAMeasuredSpaceWithoutAPass) {
  const MeasuredSpace like = example();
  const MeasuredSpace space =
      parse_table("config\tgrid\tload\tus\nk\t8x4x132\t99999 0 0 0 0 0 0 0\t5\n", "t", &like);
  EXPECT_EQ(space.loads.size(), like.loads.size() + 1);
  EXPECT_EQ(space.passes.size(), like.passes.size());
  EXPECT_EQ(space.provenance.model, like.provenance.model);
  EXPECT_EQ(space.provenance.gpu, "unknown") << "a foreign table doesn't inherit the machine";
}

constexpr const char* kForeign =
    "# kernel: of somebody\n# model: olmoe\n# layout: ep4\n# gpus: 4\n# top_k: 2\n# hidden: 2048\n"
    "# intermediate: 1024\n# shipped 256: big\n# shipped 16: small\n"
    "config,grid,knobs,tokens,role,pass,gpu,domain,load,us\n"
    "small,16x8x264+16x4x264,BLOCK_M=16 warps=4 async=true kind=wide,64,train,a,2,code,9 3 0,12 "
    "13\n"
    "small,,,64,train,a,0,code,1 1 1,10 11\n"
    "big,64x8x132,\"{\"\"BLOCK_M\"\": 64}\",64,train,a,2,code,3 9 0,14\n"
    "small,,,64,test,b,1,math,9 3 0,12.5\n"
    "big,64x8x132,,128,uniform,c,,uniform,9 9 9,20\n"
    "small,,,128,uniform,c,,uniform,9 9 9,21\n"
    "small,,,128,uniform,c,,uniform,9 9 8,22\n";

TEST(MeasurementTable, ColumnsSayWhichPassesTheLoadsBelongTo) {
  const MeasuredSpace space = parse_table(kForeign, "f.csv", nullptr);
  EXPECT_EQ(space.gpus, 4);
  ASSERT_EQ(space.passes.size(), 3u);
  EXPECT_EQ(space.passes[0].load_of_gpu, (std::vector<int>{1, -1, 0, -1}));
  EXPECT_EQ(space.passes[0].tokens, 64);
  EXPECT_EQ(space.passes[0].domain, "code");
  EXPECT_EQ(space.passes[1].role, Role::kTest);
  EXPECT_EQ(space.passes[1].load_of_gpu, (std::vector<int>{-1, 0, -1, -1}));
  EXPECT_EQ(space.passes[2].role, Role::kUniform);
  EXPECT_EQ(space.passes[2].load_of_gpu, (std::vector<int>{2, 3, -1, -1}))
      << "without a number the next GPU, once for all configurations";
  EXPECT_EQ(space.samples[0][0], (std::vector<float>{12, 13, 12.5f}));
  EXPECT_EQ(space.candidates[0].knobs, R"({"BLOCK_M":16,"async":true,"kind":"wide","warps":4})");
  EXPECT_EQ(space.candidates[1].knobs, R"({"BLOCK_M":64})");
  EXPECT_EQ(space.candidates[1].grid.phases, 1);
}

TEST(MeasurementTable, AFileKeepsTheKernelAndWhatItRunsByItself) {
  const MeasuredSpace space = parse_table(kForeign, "f.csv", nullptr);
  EXPECT_EQ(space.provenance.kernel, "of somebody");
  ASSERT_EQ(space.shipped.size(), 2u);
  EXPECT_EQ(space.shipped[0].tokens, 16);
  EXPECT_EQ(space.shipped[0].label, "small");
  const ScratchFolder folder;
  save_measurements(space, folder.file("f.rmeas"));
  const MeasuredSpace read = load_measurements(folder.file("f.rmeas"));
  expect_equal(read, space);
  EXPECT_EQ(read.provenance.kernel, "of somebody");
  ASSERT_EQ(read.shipped.size(), 2u);
  EXPECT_EQ(read.shipped[1].tokens, 256);
  EXPECT_EQ(read.shipped[1].label, "big");
  const MeasuredSpace again = parse_table(table_text(read), "g.tsv", &read);
  EXPECT_EQ(again.shipped.size(), 2u) << "a table lets them out and in again";
  EXPECT_EQ(again.provenance.kernel, "of somebody");
}

TEST(MeasurementTable, ForeignLinesThatContradictEachOtherAreRefused) {
  const std::string text = kForeign;
  const auto error = [&](const std::string& line) {
    return error_of([&] { parse_table(text + line, "f.csv", nullptr); });
  };
  const auto expect = [&](const std::string& line, const char* said) {
    const std::string e = error(line);
    EXPECT_NE(e.find(said), std::string::npos) << line << e;
    EXPECT_NE(e.find("f.csv:18"), std::string::npos) << e;
    EXPECT_NE(e.find("; allowed: "), std::string::npos) << e;
  };
  expect("small,,,64,train,a,2,code,9 4 0,12\n", "another load for GPU 2 of pass a");
  expect("small,,,65,train,a,1,code,9 4 0,12\n", "pass a with 65 tokens");
  expect("small,,,64,test,a,1,code,9 4 0,12\n", "role test");
  expect("small,,,64,train,a,4,code,9 4 0,12\n", "GPU 4");
  expect("small,,,64,held,z,1,code,9 4 0,12\n", "the role held");
  expect("small,,,6.5,test,z,1,code,9 4 0,12\n", "tokens: got 6.5");
  expect("small,,,64 65,test,z,1,code,9 4 0,12\n", "tokens: got 64 65");
  expect("small,,BLOCK_M=32,64,test,z,1,code,9 4 0,12\n", "knobs");
  expect("small,,BLOCK_M,64,test,z,1,code,9 4 0,12\n", "the knobs BLOCK_M");
  expect("other,8x8x8,{,64,test,z,1,code,9 4 0,12\n", "the knobs {");
  expect("other,8x8x8,A=1 A=2,64,test,z,1,code,9 4 0,12\n", "A twice");
  expect("other,,,64,test,z,1,code,9 4 0,12\n", "other without a grid");
  expect("small,,,64,test,z,1,code,9,4,0,12\n", "12 fields");
  expect("small,,,64,test,z,1,code,9 4 0,0\n", "got 0");
  const auto head = [](const std::string& header, const MeasuredSpace* like = nullptr) {
    return error_of([&] {
      parse_table("# top_k: 2\n# hidden: 8\n# intermediate: 8\n" + header, "h.csv", like);
    });
  };
  EXPECT_NE(head("config,grid,load,us,roll\n").find("the column roll"), std::string::npos);
  const MeasuredSpace like = example();
  EXPECT_NE(head("config,grid,load,us,role\n", &like).find("--like"), std::string::npos);
  EXPECT_NE(head("# shipped 8: c\nconfig,grid,load,us\na,8x8x8,1 2,3\n").find("# shipped 8"),
            std::string::npos);
  EXPECT_NE(head("# gpus: 0\nconfig,grid,load,us\na,8x8x8,1 2,3\n").find("# gpus"),
            std::string::npos);
}

// Somebody else's file: whatever is in it, it is read or refused.
TEST(MeasurementTable, DamagedTablesAreReadOrRefusedAndNothingElse) {
  const std::string whole = kForeign;
  std::mt19937 random(7);
  int read = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = whole;
    for (unsigned n = 1 + random() % 4; n > 0; --n) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 6);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 30));
          break;
        default:
          text.insert(at, 1, ",;=\"{} 9-\n"[random() % 10]);
      }
    }
    try {
      const MeasuredSpace space = parse_table(text, "d.csv", nullptr);
      EXPECT_NO_THROW(check_space(space));
      ++read;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 1000);
}

TEST(MeasurementTable, ErrorsNameTheLine) {
  const std::string head = "# top_k: 2\n# hidden: 8\n# intermediate: 8\nconfig\tgrid\tload\tus\n";
  const auto error = [](const std::string& text) {
    return error_of([&] { parse_table(text, "t.tsv", nullptr); });
  };
  EXPECT_NE(error(head + "a\t8x4x132\t1 2\t-5\n").find("t.tsv:5"), std::string::npos);
  EXPECT_NE(error(head + "a\t8x4x132\t1 2\tfast\n").find("fast"), std::string::npos);
  EXPECT_NE(error(head + "a\t8x4\t1 2\t5\n").find("8x4"), std::string::npos);
  EXPECT_NE(error(head + "a\t8x4x132\t1 2\t5\na\t8x4x132\t1 2 3\t5\n").find("3 counts"),
            std::string::npos);
  EXPECT_NE(error(head + "a\t8x4x132\t1 2\t5\na\t16x4x132\t1 2\t5\n").find("another name"),
            std::string::npos);
  EXPECT_NE(error(head + "\t8x4x132\t1 2\t5\n").find("no config"), std::string::npos);
  EXPECT_NE(error(head + "a\t8x4x132\t1.5 2\t5\n").find("1.5 2"), std::string::npos);
  EXPECT_NE(error(head).find("no measurements"), std::string::npos);
  EXPECT_NE(error("").find("no header"), std::string::npos);
  EXPECT_NE(error("config\tgrid\tus\n").find("load"), std::string::npos);
  EXPECT_NE(error("config\tgrid\tload\tus\na\t8x4x132\t1 2\t5\n").find("top_k"), std::string::npos);
  EXPECT_NE(error(head + "a\t8x4x132\t1 2\tinf\n"), "");
  EXPECT_NE(error(head + "a\t8x4x132\t1 2\tnan\n"), "");
}

}  // namespace
}  // namespace ramp
