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
  const auto document = said.json();
  const auto row = row_of(document, "OLMoE-1B-7B", "EP8");
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
  EXPECT_EQ(row.at("cells")[2].at("unit"), "ratio");
  EXPECT_EQ(row.at("cells")[6].at("unit"), "fraction");
  EXPECT_FALSE(document.at("sources").empty());
  for (const auto& source : document.at("sources"))
    EXPECT_EQ(source.at("gpu"), "NVIDIA H200") << source;
}

TEST(PaperVerb, TheRegionsSayWhatTheySaidBeforeTheLayersWereMeasured) {
  const std::string csv = folder().at("regions.csv");
  const Said said = ramp_says("paper regions --csv " + csv + kData);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(text_of_file(csv),
            text_of_file(std::string(RAMP_SOURCE_DIR) + "/data/predictions/regions-2.csv"));
  EXPECT_NE(said.out.find("never seen"), std::string::npos) << said.out;
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

TEST(PaperVerb, ARowSaysTheOpenLoopsThatItsFileIsScoredOn) {
  const std::string file = folder().at("open.rmeas");
  const Said profiled = ramp_says(
      "profile --model olmoe --layout ep8 --generate seed=1,passes=4,layers=1 --timer "
      "simulated:seed=1 --train 6 --test 6 --test-rate 8,32 -o " +
      file);
  ASSERT_EQ(profiled.code, 0) << profiled.err;
  const auto document = ramp_says("paper table3 --json " + file).json();
  const std::string scored_on = row_of(document, "OLMoE-1B-7B", "EP8").at("cells")[8];
  EXPECT_NE(scored_on.find("open loops of 8,32 requests/s, 20 ms a pass; SIMULATED"),
            std::string::npos)
      << scored_on;
}

TEST(PaperVerb, TimesOfAnotherKernelAreARowOnlyByName) {
  const std::string data = folder().at("data"), table = folder().at("foreign.csv");
  std::filesystem::create_directories(data + "/h200");
  std::filesystem::copy_file(synthetic_measurements(), data + "/h200/ours.rmeas");
  const Said exported = ramp_says("profile export " + synthetic_measurements());
  ASSERT_EQ(exported.code, 0) << exported.err;
  std::ofstream(table) << exported.out;
  const std::string foreign = data + "/h200/foreign.rmeas";
  const Said imported = ramp_says("profile import " + table + " --like " +
                                  synthetic_measurements() + " -o " + foreign);
  ASSERT_EQ(imported.code, 0) << imported.err;
  const Said both = ramp_says("paper table3 --data " + data);
  ASSERT_EQ(both.code, 0) << both.err;
  EXPECT_NE(both.out.find("ours.rmeas"), std::string::npos);
  EXPECT_EQ(both.out.find("foreign.rmeas"), std::string::npos) << both.out;
  const Said named = ramp_says("paper table3 " + foreign);
  ASSERT_EQ(named.code, 0) << named.err;
  EXPECT_NE(named.out.find("imported kernel"), std::string::npos) << named.out;
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

TEST(PaperVerb, EveryResultComesFromTheShippedMeasurementsInTime) {
  for (const PaperResult& result : paper_results()) {
    if (std::string(result.name) == "table12") continue;  // compiles kernels
    const auto start = std::chrono::steady_clock::now();
    const Said said = ramp_says("paper " + std::string(result.name) + " --json" + kData);
    ASSERT_EQ(said.code, 0) << result.name << said.err;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60)) << result.name;
    const auto document = said.json();
    EXPECT_FALSE(document.at("rows").empty()) << result.name;
    const size_t columns = document.at("columns").size();
    for (const auto& row : document.at("rows")) EXPECT_EQ(row.at("cells").size(), columns) << row;
  }
}

TEST(PaperVerb, FiguresAreDrawnAndTablesAreNot) {
  for (const char* figure : {"figure3", "figure4", "figure5", "figure6"}) {
    const std::string svg = folder().at("f.svg"), csv = folder().at("f.csv");
    const Said said =
        ramp_says("paper " + std::string(figure) + " --plot " + svg + " --csv " + csv + kData);
    ASSERT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(text_of_file(svg).find("<svg "), 0u) << figure;
    EXPECT_EQ(text_of_file(csv).find("panel,series,x,y,low,high\n"), 0u) << figure;
    EXPECT_GT(text_of_file(csv).size(), 200u) << figure;
  }
  EXPECT_EQ(ramp_says("paper table3 --plot " + folder().at("t.svg") + kData).code, 1);
}

TEST(PaperVerb, Figure6SaysWhatFitSays) {
  const auto rows = ramp_says("paper figure6 --json" + kData).json().at("rows");
  const auto fit =
      ramp_says("fit " + std::string(RAMP_SOURCE_DIR) + "/data/h200/qwen3-30b-ep8.rmeas --json")
          .out;
  const double rank = rows[0].at("cells")[1].at("ours").at("value").get<double>();
  EXPECT_GT(rank, 0.9);
  EXPECT_NE(fit.find(std::to_string(rank).substr(0, 6)), std::string::npos) << rank << fit;
}

TEST(PaperVerb, ClaimsHaveAnAnswerOrSayWhatTheyNeed) {
  const Said said = ramp_says("paper claims --json" + kData);
  ASSERT_EQ(said.code, 0) << said.err;
  int answered = 0, open = 0;
  const auto document = said.json();
  for (const auto& row : document.at("rows")) {
    const auto& ours = row.at("cells")[2].at("ours");
    const bool has_answer = !ours.at("value").is_null() || !ours.at("low").is_null();
    (has_answer ? answered : open)++;
    if (!has_answer) {
      EXPECT_EQ(row.at("why_not"), "not measured here") << row;
      EXPECT_EQ(row.at("cells")[3].get<std::string>().find("needs "), 0u) << row;
    }
    const auto& paper = row.at("cells")[2].at("paper");
    EXPECT_FALSE(paper.at("value").is_null() && paper.at("low").is_null()) << row;
  }
  EXPECT_GT(answered, 30);
  EXPECT_GT(open, 5);
}

TEST(PaperVerb, Table6ShowsTheCalibrationsScoresBesideTheRecordedTrace) {
  const Said said = ramp_says("paper table6" + kData);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("DeepSeek-V2-Lite"), std::string::npos);
  EXPECT_NE(said.out.find("recorded"), std::string::npos);
  EXPECT_NE(said.out.find("fitted to the paper's figures"), std::string::npos) << said.out;
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

TEST(PaperVerb, HelpAndThePageNameEveryResult) {
  const std::string help = ramp_says("paper --help").out,
                    page = text_of_file(std::string(RAMP_SOURCE_DIR) + "/docs/paper.md");
  for (const PaperResult& result : paper_results()) {
    EXPECT_NE(help.find(result.summary), std::string::npos) << result.name;
    EXPECT_NE(page.find("`" + std::string(result.name) + "`"), std::string::npos) << result.name;
  }
}

}  // namespace
}  // namespace ramp
