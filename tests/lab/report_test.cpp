// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/report.hpp"

#include <gtest/gtest.h>

namespace ramp {
namespace {

TEST(ReportNumber, SaysItsIntervalOrItsRange) {
  EXPECT_EQ(text_of({1.236}, Unit::kTimes), "1.24x");
  EXPECT_EQ(text_of({1.24, 1.2, 1.31}, Unit::kTimes), "1.24x [1.20, 1.31]");
  EXPECT_EQ(text_of({0.0347}, Unit::kPercent), "3.5");
  EXPECT_EQ(text_of({Number::kUnknown, 0.033, 0.048}, Unit::kPercent), "3.3-4.8");
  EXPECT_EQ(text_of({Number::kUnknown, 0.0061, 0.0062}, Unit::kPercent), "0.6");
  EXPECT_EQ(text_of({}, Unit::kPercent), "-");
}

Report small() {
  Report report{"x", "A title", {{"model"}, {"speed", Unit::kTimes}, {"only ours", Unit::kCount}},
                {},  {},        {},
                {}};
  report.rows.push_back({{{"a, b"}, {"", {1.1}, {1.2}, {}}, {"", {7}, {}, {}}}, "", ""});
  report.rows.push_back({{{"c"}, {"", {}, {1.3}, {}}, {}}, kNotMeasured, "ramp tune"});
  return report;
}

TEST(Report, APaperColumnStandsWhereThePaperHasANumberAndAMissingRowSaysSo) {
  const auto grid = grid_of(small());
  EXPECT_EQ(grid[0], (std::vector<std::string>{"<model", "speed", "paper", "only ours"}));
  EXPECT_EQ(grid[1], (std::vector<std::string>{"a, b", "1.10x", "1.20x", "7"}));
  EXPECT_EQ(grid[2], (std::vector<std::string>{"c", "not measured here", "1.30x", "-"}));
}

TEST(Report, CsvQuotesCommasAndLeavesUnknownEmpty) {
  const std::string csv = csv_of(small());
  EXPECT_NE(csv.find("\"a, b\",1.1,,,1.2,,,7,"), std::string::npos) << csv;
  EXPECT_NE(csv.find("not measured here,ramp tune"), std::string::npos) << csv;
}

TEST(Report, MarkdownHasTheRuleUnderTheHeading) {
  const std::string text = markdown_of(small());
  EXPECT_NE(text.find("| model | speed | paper | only ours |\n| --- | ---: | ---: | ---: |\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace ramp
