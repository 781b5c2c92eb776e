// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/cli/choice_program.hpp"

namespace ramp {
namespace {

std::string made(const std::string& name, const std::string& arguments) {
  const std::string out = folder().at(name);
  const Said said = ramp_says("plan make " + synthetic_measurements() + " -o " + out + arguments);
  EXPECT_EQ(said.code, 0) << said.err;
  return out;
}

const std::string& four() {
  static const std::string path = made("four.plan.json", " --menu 4 --menus 1");
  return path;
}

const std::string& two() {
  static const std::string path = made("two.plan.json", " --menu 2 --menus 1");
  return path;
}

// The plan with one value changed, under the identity of what it now says.
std::string changed(const std::string& name, const std::string& pointer, nlohmann::json value) {
  auto plan = nlohmann::json::parse(text_of_file(four()));
  plan[nlohmann::json::json_pointer(pointer)] = std::move(value);
  const std::string out = folder().at(name);
  std::ofstream(out) << plan.dump(2);
  return out;
}

TEST(PlanDiffVerb, APlanIsTheSameAsItself) {
  const Said said = ramp_says("plan diff " + four() + " " + four());
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("The plans are the same."), std::string::npos) << said.out;
  const auto document = ramp_says("plan diff --json " + four() + " " + four()).json();
  EXPECT_TRUE(document.at("same").get<bool>());
  EXPECT_TRUE(document.at("choices").empty());
  EXPECT_DOUBLE_EQ(document.at("predicted_b_over_a").get<double>(), 1);
  EXPECT_GT(document.at("loads").get<int>(), 40);
}

TEST(PlanDiffVerb, SaysWhichEntriesCameAndWentAndWhereTheChoiceDiffers) {
  const auto document = ramp_says("plan diff --json " + four() + " " + two()).json();
  EXPECT_FALSE(document.at("same").get<bool>());
  int removed = 0;
  for (const auto& entry : document.at("entries")) removed += entry.at("b").is_null();
  EXPECT_EQ(removed, 2);  // the greedy menu of two begins the menu of four
  ASSERT_FALSE(document.at("choices").empty());
  const auto menu = nlohmann::json::parse(text_of_file(two())).at("menu");
  for (const auto& c : document.at("choices")) {
    EXPECT_NE(c.at("a"), c.at("b"));
    EXPECT_GE(c.at("b_us").get<double>(), c.at("a_us").get<double>());  // fewer to choose from
    const bool held = menu[0].at("label") == c.at("a") || menu[1].at("label") == c.at("a");
    EXPECT_FALSE(held);
    EXPECT_TRUE(c.at("a_choice_by_b_us").is_null());
  }
  EXPECT_GT(document.at("predicted_b_over_a").get<double>(), 1);
  const Said said = ramp_says("plan diff " + four() + " " + two());
  for (const char* part : {"Origin and promises", "quality/gap", "removed", "Choices differ on"})
    EXPECT_NE(said.out.find(part), std::string::npos) << said.out;
  // The other way round the same entries were added.
  EXPECT_NE(ramp_says("plan diff " + two() + " " + four()).out.find("added"), std::string::npos);
}

TEST(PlanDiffVerb, SaysWhichCoefficientsMovedAndWhatThatDoes) {
  const auto menu = nlohmann::json::parse(text_of_file(four())).at("menu");
  // The first entry becomes dear: wherever it ran, another one does.
  const std::string dear = changed("dear.plan.json", "/menu/0/theta/fixed_us", 10000);
  const Said said = ramp_says("plan diff --allow-edited --json " + four() + " " + dear);
  ASSERT_EQ(said.code, 0) << said.err;
  const auto document = said.json();
  ASSERT_EQ(document.at("entries").size(), 1u);
  const auto& entry = document.at("entries")[0];
  EXPECT_EQ(entry.at("label"), menu[0].at("label"));
  EXPECT_EQ(entry.at("a").at("theta").at("fixed_us"), menu[0].at("theta").at("fixed_us"));
  EXPECT_EQ(entry.at("b").at("theta").at("fixed_us"), 10000);
  ASSERT_FALSE(document.at("choices").empty());
  for (const auto& c : document.at("choices")) {
    EXPECT_EQ(c.at("a"), menu[0].at("label"));
    EXPECT_GT(c.at("a_choice_by_b_us").get<double>(), c.at("b_us").get<double>());
  }
  EXPECT_TRUE(document.at("fields").empty());
}

TEST(PlanDiffVerb, NamesProvenanceByField) {
  const std::string other = changed("driver.plan.json", "/provenance/driver", "999.99");
  const auto document = ramp_says("plan diff --allow-edited --json " + four() + " " + other).json();
  ASSERT_EQ(document.at("fields").size(), 1u);
  EXPECT_EQ(document.at("fields")[0].at("field"), "/provenance/driver");
  EXPECT_EQ(document.at("fields")[0].at("b"), "999.99");
  EXPECT_TRUE(document.at("entries").empty());
  EXPECT_TRUE(document.at("choices").empty());
}

TEST(PlanDiffVerb, ComparesOnTheLoadsThatItIsGiven) {
  const std::string plans = four() + " " + two();
  EXPECT_EQ(ramp_says("plan diff --json " + plans + " --load 9,9,9,9,9,9,9,9").json().at("loads"),
            1);
  const std::string counts = folder().at("diff_counts.txt");
  std::ofstream(counts) << "8,8,8,8,8,8,8,8\n100,0,0,0,0,0,0,0\n";
  EXPECT_EQ(ramp_says("plan diff --json " + plans + " --counts-file " + counts).json().at("loads"),
            2);
  const Said measured =
      ramp_says("plan diff " + plans + " --measurements " + synthetic_measurements());
  ASSERT_EQ(measured.code, 0) << measured.err;
  EXPECT_NE(measured.out.find("measured in"), std::string::npos) << measured.out;
}

TEST(PlanDiffVerb, RefusesWhatItCannotCompare) {
  const std::string plans = "plan diff " + four() + " " + two();
  for (const std::string& command :
       {plans + " --load 1,2,3", plans + " --load 8 --measurements x.rmeas",
        "plan diff " + four() + " " + folder().at("nowhere.plan.json"),
        "plan diff " + four() + " " + changed("e.plan.json", "/provenance/driver", "1")}) {
    const Said said = ramp_says(command);
    EXPECT_EQ(said.code, 1) << command;
    EXPECT_NE(said.err.find("next:"), std::string::npos) << said.err;
  }
  // Other layers are compared, their choices are not.
  const std::string other = changed("larger.plan.json", "/shape/experts", 16);
  const Said said = ramp_says("plan diff --allow-edited " + four() + " " + other);
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("not compared"), std::string::npos) << said.out;
  EXPECT_EQ(ramp_says("plan diff " + four()).code, 2);
}

}  // namespace
}  // namespace ramp
