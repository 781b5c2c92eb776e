// SPDX-License-Identifier: Apache-2.0
// `ramp paper` on the measurements that the repository ships.
#include <gtest/gtest.h>

#include <chrono>

#include "lab/paper/results.hpp"
#include "tests/cli/choice_program.hpp"

namespace ramp {
namespace {

const std::string kData = std::string(" --data ") + RAMP_SOURCE_DIR + "/data";

nlohmann::json row_of(const nlohmann::json& document, const std::string& model,
                      const std::string& layout) {
  for (const auto& row : document.at("rows"))
    if (row.at("cells")[0] == model && row.at("cells")[1] == layout) return row;
  ADD_FAILURE() << "no " << model << " " << layout;
  return {};
}

TEST(PaperVerb, Table3HoldsWhatEvalSaysAndThePapersFigure) {
  const Said said = ramp_says("paper table3 --json" + kData);
  ASSERT_EQ(said.code, 0) << said.err;
  const auto row = row_of(said.json(), "OLMoE-1B-7B", "EP8");
  const auto eval = ramp_says("eval " + std::string(RAMP_SOURCE_DIR) +
                              "/data/h200/olmoe-ep8.rmeas --policies cost-model --json")
                        .json();
  const auto& all = eval.at("policies")[0].at("all");
  EXPECT_DOUBLE_EQ(row.at("cells")[2].at("ours").at("value").get<double>(),
                   all.at("speedup").get<double>());
  EXPECT_DOUBLE_EQ(row.at("cells")[2].at("ours").at("low").get<double>(),
                   all.at("interval")[0].get<double>());
  EXPECT_DOUBLE_EQ(row.at("cells")[6].at("ours").at("value").get<double>(),
                   all.at("gap").get<double>());
  EXPECT_DOUBLE_EQ(row.at("cells")[2].at("paper").at("value").get<double>(), 1.05);
  for (const auto& source : said.json().at("sources"))
    EXPECT_EQ(source.at("gpu"), "NVIDIA H200") << source;
}

TEST(PaperVerb, AFileOfTheUsersAddsItsRowAndSimulatedTimesAreCalledThat) {
  const Said said = ramp_says("paper table5 " + synthetic_measurements());
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("synthetic"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("SIMULATED, not measured"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("not measured here"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("ramp tune --model qwen3-30b --layout ep32"), std::string::npos)
      << said.out;
}

TEST(PaperVerb, ThePoliciesOfAnotherChoiceTakeThePapersPlace) {
  const std::string command = "paper table3 " + synthetic_measurements() + " --json --choice ";
  const auto fixed = ramp_says(command + "fixed").json(),
             best = ramp_says(command + "exhaustive").json();
  const auto gap = [](const nlohmann::json& document) {
    return row_of(document, "synthetic", "EP8").at("cells")[6].at("ours").at("value").get<double>();
  };
  EXPECT_GT(gap(fixed), 0.05);
  EXPECT_DOUBLE_EQ(gap(best), 0);
  EXPECT_EQ(ramp_says(command + "nobody").code, 1);
}

TEST(PaperVerb, WritesMarkdownAndCsv) {
  const std::string csv = folder().at("t.csv"), markdown = folder().at("t.md");
  const Said said = ramp_says("paper table4 --csv " + csv + " --markdown " + markdown + kData);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(text_of_file(csv).find("policy,keyed on,gap,gap low"), 0u) << text_of_file(csv);
  EXPECT_NE(text_of_file(markdown).find("| cost-model |"), std::string::npos);
}

TEST(PaperVerb, RefusesWithTheStepThatMendsIt) {
  const Said unknown = ramp_says("paper table99" + kData);
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("table3"), std::string::npos) << unknown.err;
  const Said nothing = ramp_says("paper table3 --data " + folder().at("empty"));
  EXPECT_EQ(nothing.code, 1);
  EXPECT_NE(nothing.err.find("--data"), std::string::npos) << nothing.err;
  EXPECT_NE(nothing.err.find("FILE"), std::string::npos) << nothing.err;
}

TEST(PaperVerb, HelpNamesEveryResult) {
  const std::string help = ramp_says("paper --help").out;
  for (const PaperResult& result : paper_results())
    EXPECT_NE(help.find(result.summary), std::string::npos) << result.name;
}

}  // namespace
}  // namespace ramp
