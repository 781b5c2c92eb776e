// SPDX-License-Identifier: Apache-2.0
// `ramp report` on the measurements that the repository ships.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/cli/choice_program.hpp"
#include "tests/markup.hpp"

namespace ramp {
namespace {

const std::string kData = std::string(RAMP_SOURCE_DIR) + "/data/h200/";
const std::string kOlmoe = kData + "olmoe-ep8.rmeas";
const std::string kRecords = " --layer " + kData + "layer.json --peers " + kData + "peers.json";

const nlohmann::json& section_of(const nlohmann::json& document, const std::string& id) {
  for (const auto& section : document.at("sections"))
    if (section.at("id") == id) return section;
  throw std::runtime_error("no section " + id);
}

TEST(ReportVerb, WritesOneWholePageInSeconds) {
  const std::string page = folder().at("olmoe.html");
  const auto start = std::chrono::steady_clock::now();
  const Said said = ramp_says("report " + kOlmoe + kRecords + " -o " + page);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_NE(said.out.find("written to " + page), std::string::npos) << said.out;
  const std::string html = text_of_file(page);
  EXPECT_EQ(what_is_unbalanced(html), "");
  EXPECT_LT(html.size(), 1u << 20);
  for (const char* part :
       {"OLMoE-1B-7B on EP8", "NVIDIA H200", "580.159.04", "Is it worth it?", "The plan",
        "Whole layers", "Ways of choosing", "cost-model-menus", "Which configurations win",
        "How much was measured", "What was measured", "MHz", "Do it again", "ramp report"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  for (const char* part : {"<script", "<link", "<img", "src=", "url(", "https:", ">nan", ">inf"})
    EXPECT_EQ(html.find(part), std::string::npos) << part;
}

TEST(ReportVerb, SaysWhatEvalSays) {
  const Said said = ramp_says("report " + kOlmoe + " --json"),
             eval = ramp_says("eval " + kOlmoe + " --json");
  ASSERT_EQ(said.code, 0) << said.err;
  ASSERT_EQ(eval.code, 0) << eval.err;
  const auto document = said.json(), policies = eval.json().at("policies");
  const auto& rows = section_of(document, "policies").at("tables")[0].at("rows");
  ASSERT_EQ(rows.size(), policies.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& cells = rows[i].at("cells");
    EXPECT_EQ(cells[0], policies[i].at("name"));
    EXPECT_EQ(cells[3].at("ours").at("value"), policies[i].at("all").at("gap"));
    EXPECT_EQ(cells[3].at("ours").at("low"), policies[i].at("all").at("gap_interval")[0]);
    EXPECT_EQ(cells[4].at("ours").at("value"), policies[i].at("large").at("gap"));
    EXPECT_EQ(cells[7].at("ours").at("value"), policies[i].at("all").at("speedup"));
  }
}

TEST(ReportVerb, SaysWhatAdviseAndFitSay) {
  const auto document = ramp_says("report " + kOlmoe + " --json").json(),
             advice = ramp_says("advise " + kOlmoe + " --json").json(),
             fit = ramp_says("fit " + kOlmoe + " --json").json();
  const auto& rows = section_of(document, "gains").at("tables")[0].at("rows");
  ASSERT_EQ(rows.size(), advice.at("ranges").size() + 1);
  EXPECT_EQ(rows.back().at("cells")[5].at("ours").at("value"), advice.at("all").at("gain"));
  EXPECT_EQ(rows.back().at("cells")[6].at("ours").at("value"),
            advice.at("all").at("saved_us_a_step"));
  EXPECT_EQ(rows.back().at("cells")[7], advice.at("all").at("verdict"));
  EXPECT_EQ(section_of(document, "model")
                .at("tables")[0]
                .at("rows")[0]
                .at("cells")[2]
                .at("ours")
                .at("value"),
            fit.at("quality").at("rank_correlation").at("all"));
}

TEST(ReportVerb, APlanFromAFileIsThatPlanAndAnotherLayersIsRefused) {
  const std::string plan = folder().at("olmoe.plan.json");
  ASSERT_EQ(ramp_says("plan make " + kOlmoe + " -o " + plan).code, 0);
  const Said given = ramp_says("report " + kOlmoe + " --json --plan " + plan);
  ASSERT_EQ(given.code, 0) << given.err;
  const auto made = ramp_says("report " + kOlmoe + " --json").json();
  const auto with_plan = given.json();
  EXPECT_EQ(section_of(with_plan, "plan").at("tables"), section_of(made, "plan").at("tables"));
  EXPECT_TRUE(section_of(with_plan, "plan").at("facts").contains("Identity"));
  const Said other = ramp_says("report " + kData + "qwen3-30b-ep8.rmeas --plan " + plan + " -o " +
                               folder().at("none.html"));
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("plan make"), std::string::npos) << other.err;
  EXPECT_FALSE(std::filesystem::exists(folder().at("none.html")));
}

TEST(ReportVerb, SimulatedTimesAreCalledThatAndTheDefaultPlaceIsSaid) {
  const std::string page = folder().at("synthetic.html");
  const Said said = ramp_says("report " + synthetic_measurements() + " -o " + page);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("SIMULATED"), std::string::npos) << said.out;
  EXPECT_NE(text_of_file(page).find("SIMULATED times, not measured"), std::string::npos);
  EXPECT_NE(ramp_says("report --help").out.find("report.html"), std::string::npos);
}

TEST(ReportVerb, RecordsOfAnotherModelAreSaidAndThoseThatAreNoneRefused) {
  const auto document =
      ramp_says("report " + kData + "dsv2-lite-ep8.rmeas --json" + kRecords).json();
  EXPECT_NE(section_of(document, "layers").at("says").dump().find("holds no row of dsv2-lite"),
            std::string::npos);
  const std::string bad = folder().at("bad.json"), page = folder().at("bad.html");
  for (const char* text : {"[1, 2", "[]", "{\"rows\": 3}", "{\"rows\": [1]}"}) {
    std::ofstream(bad) << text;
    const Said said = ramp_says("report " + kOlmoe + " --layer " + bad + " -o " + page);
    EXPECT_EQ(said.code, 1) << text;
    EXPECT_NE(said.err.find("--layer"), std::string::npos) << said.err;
    EXPECT_NE(said.err.find("next: "), std::string::npos) << said.err;
  }
  // Rows whose fields are of another kind are no rows; nothing of them reaches the page raw.
  std::ofstream(bad) << R"({"rows": [{"model": "olmoe", "layout": "ep8", "tokens": "many"},
    {"model": "olmoe", "layout": "ep8", "tokens": 8, "load": "<i>x</i>", "policy": "best",
     "mode": "fast", "us": "fast", "ffn_us": -1, "peers": {"<u>": 3, "vllm": "slow"}},
    {"model": ["olmoe"]}], "conditions": {"versions": {"<u>": "<s>"}}})";
  const Said odd =
      ramp_says("report " + kOlmoe + " --layer " + bad + " --peers " + bad + " -o " + page);
  ASSERT_EQ(odd.code, 0) << odd.err;
  const std::string html = text_of_file(page);
  EXPECT_EQ(what_is_unbalanced(html), "");
  for (const char* part : {"<i>x", "<u>", "<s>"}) EXPECT_EQ(html.find(part), std::string::npos);
}

TEST(ReportVerb, RefusesWithTheStepThatMendsItAndLeavesWhatWasThere) {
  const std::string page = folder().at("kept.html");
  std::ofstream(page) << "kept";
  for (const std::string& wrong :
       {std::string(" --choice crystal-ball"), " --layer " + folder().at("no.json"),
        " --plan " + folder().at("no.plan.json")}) {
    const Said said = ramp_says("report " + kOlmoe + wrong + " -o " + page);
    EXPECT_EQ(said.code, 1) << wrong;
    EXPECT_NE(said.err.find("next: "), std::string::npos) << said.err;
  }
  EXPECT_EQ(text_of_file(page), "kept");
  EXPECT_EQ(ramp_says("report " + folder().at("none.rmeas") + " -o " + page).code, 1);
  EXPECT_EQ(ramp_says("report " + kOlmoe + " -o " + folder().at("no/such/place.html")).code, 1);
  const Said itself =
      ramp_says("report " + synthetic_measurements() + " -o " + synthetic_measurements());
  EXPECT_EQ(itself.code, 1);
  EXPECT_NE(itself.err.find("--out"), std::string::npos) << itself.err;
  EXPECT_EQ(ramp_says("report").code, 2);
}

TEST(ReportVerb, TheCommandOnThePageMakesItAgain) {
  const std::string page = folder().at("again page.html");
  const Said said =
      ramp_says("report " + kOlmoe + " --present fixed --menu 3 --json -o '" + page + "'");
  ASSERT_EQ(said.code, 0) << said.err;
  const std::string first = text_of_file(page);
  std::string command = section_of(said.json(), "again").at("commands")[0];
  ASSERT_EQ(command.rfind("ramp report ", 0), 0u);
  EXPECT_NE(command.find("--present fixed --menu 3"), std::string::npos) << command;
  const Said again = ramp_says(command.substr(5));
  ASSERT_EQ(again.code, 0) << command << again.err;
  EXPECT_EQ(text_of_file(page), first);
}

}  // namespace
}  // namespace ramp
