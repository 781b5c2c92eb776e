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
