// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/svg.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/markup.hpp"

namespace ramp {
namespace {

TEST(Ticks, AreRoundAndCoverTheRange) {
  EXPECT_EQ(ticks_of(0, 9.3, false), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  const std::vector<double> log = ticks_of(1, 1000, true);
  EXPECT_EQ(log.size(), 4u);
  EXPECT_DOUBLE_EQ(log.back(), 1000);
  EXPECT_EQ(ticks_of(10, 60, true), (std::vector<double>{10, 20, 50}));
}

Plot everything() {
  Panel panel{"a < b & \"c\"", "x", "y", true, true, {}, {{"floor", 2}}, {}};
  panel.series.push_back({"line", Series::Kind::kLine, {1, 10, 100}, {1, NAN, 9}, {}, {}});
  panel.series.push_back({"points", Series::Kind::kPoints, {1, 0, 100}, {1, 5, 9}, {}, {}});
  panel.series.push_back({"area", Series::Kind::kArea, {1, 10}, {3, 4}, {1, 1}, {}});
  panel.series.push_back({"star", Series::Kind::kStars, {10}, {3}, {}, {}});
  Panel bars{"bars", "", "y", false, false, {}, {{"even", 1}}, {"one", "two"}};
  bars.series.push_back({"b", Series::Kind::kBars, {0, 1}, {1.2, 0.8}, {1.1, 0.7}, {1.3, 0.9}});
  Panel empty{"nothing", "", "", true, false, {}, {}, {}};
  return {"Title", {panel, bars, empty, bars}};
}

TEST(Svg, IsWholeXmlWithLegendLevelsAndNoNumbersThatAreNone) {
  const std::string svg = svg_of({everything()});
  EXPECT_EQ(what_is_unbalanced(svg), "");
  EXPECT_NE(svg.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  for (const char* text : {">line<", ">floor<", ">star<", ">even<", ">two<", ">Title<"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(PlotCsv, NamesCategoriesAndKeepsIntervals) {
  const std::string csv = csv_of(std::vector<Plot>{everything()});
  EXPECT_NE(csv.find("bars,b,two,0.8,0.7,0.9"), std::string::npos) << csv;
  EXPECT_NE(csv.find(",star,10,3,,"), std::string::npos) << csv;
}

}  // namespace
}  // namespace ramp
