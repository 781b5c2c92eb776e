// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "choice/plan_times.hpp"
#include "choice/tune.hpp"
#include "lab/page/html.hpp"
#include "lab/page/run.hpp"
#include "lab/paper/markup.hpp"
#include "lab/paper/svg.hpp"
#include "tests/choice/synthetic.hpp"
#include "tests/lab/measured_example.hpp"
#include "tests/markup.hpp"

namespace ramp {
namespace {

TEST(Markup, EscapesWhatMeansSomethingAndReplacesWhatIsNoCharacter) {
  EXPECT_EQ(escape_markup("<a href=\"x\">'&'</a>"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  EXPECT_EQ(escape_markup("caf\xc3\xa9 \xf0\x9f\x90\x8f\n"), "caf\xc3\xa9 \xf0\x9f\x90\x8f\n");
  const std::string none = "\xef\xbf\xbd";
  for (const std::string bad : {"\x01", "\x7f", "\xff", "\xc3", "\xc0", "\xe2", "\xf8"})
    EXPECT_EQ(escape_markup(bad), none) << bad;
  EXPECT_EQ(escape_markup(std::string("a\0b", 3)), "a" + none + "b");
  EXPECT_EQ(escape_markup("\xed\xa0\x80").find('\xed'), std::string::npos);  // a surrogate
  EXPECT_EQ(escape_markup("\xc0\xaf"), none + none);                         // an overlong slash
}

const std::string kHostile = "</title><script>alert('x')</script> & \"quotes\"";

Page hostile_page() {
  Page page{kHostile, kHostile, kHostile, {kHostile}, {{kHostile, kHostile, kHostile}}, {}};
  Report report{.name = kHostile, .title = kHostile};
  report.columns = {{kHostile}, {kHostile, Unit::kPercent}, {"other", Unit::kUs}};
  report.rows.push_back({{{kHostile, {}, {}, {}}, {"", {0.012, 0.01, 0.02}, {}, {}}, {}}, "", ""});
  report.rows.push_back({{{"b", {}, {}, {}}, {}, {}}, kHostile, ""});
  report.notes = {kHostile};
  Panel panel{kHostile, kHostile, kHostile, true, true, {}, {{kHostile, 2}}, {}};
  panel.series.push_back({kHostile, Series::Kind::kLine, {1, 10}, {1, 5}, {}, {}});
  panel.series.push_back({kHostile, Series::Kind::kPoints, {1, 10}, {1, 5}, {0.5, 4}, {2, 6}});
  Panel bars{kHostile, "", "", false, false, {}, {}, {kHostile, kHostile}};
  bars.series.push_back({kHostile, Series::Kind::kBars, {0, 1}, {1, -5}, {0, -6}, {2, -4}});
  report.plots = {{kHostile, {panel, bars}}};
  page.sections.push_back(
      {kHostile, kHostile, {kHostile}, {{kHostile, kHostile}}, {report}, {kHostile}});
  return page;
}

TEST(Html, IsWholeWhateverTheFilesHold) {
  const std::string html = html_of(hostile_page());
  EXPECT_EQ(what_is_unbalanced(html), "");
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;"), std::string::npos);
}

TEST(Html, NeedsNothingFromElsewhere) {
  const std::string html = html_of(hostile_page());
  for (const char* word : {"<link", "<img", "<iframe", "src=", "url(", "@import", "https:"})
    EXPECT_EQ(html.find(word), std::string::npos) << word;
  for (const char* word : {"prefers-color-scheme: dark", "@media print", "<html lang=\"en\">"})
    EXPECT_NE(html.find(word), std::string::npos) << word;
}

TEST(Html, TablesHaveHeadersAndAReasonTakesTheRoomOfTheNumbers) {
  Page page{"t", "s", "f", {}, {}, {}};
  Report report{.name = "r", .title = "A table"};
  report.columns = {{"name"}, {"gap %", Unit::kPercent}, {"us", Unit::kUs}};
  report.rows = {
      {{{"a", {}, {}, {}}, {"", {0.012, 0.01, 0.02}, {}, {}}, {"", {7}, {}, {}}}, "", ""},
      {{{"b", {}, {}, {}}, {}, {}}, "not measured", ""}};
  page.sections.push_back({"one", "One", {"Say `ramp eval`."}, {}, {report}, {}});
  const std::string html = html_of(page);
  for (const char* part :
       {"<caption>A table</caption>", "<th scope=\"col\" class=\"left\">name</th>",
        "<th scope=\"row\" class=\"left\">a</th>",
        "<td>1.2 <span class=\"range\">[1.0, 2.0]</span></td><td>7.0</td>",
        "<td class=\"why\" colspan=\"2\">not measured</td></tr>", "<a href=\"#one\">One</a>",
        "Say <code>ramp eval</code>."})
    EXPECT_NE(html.find(part), std::string::npos) << part << "\n" << html;
}

TEST(InlineSvg, HasATitleADescriptionAndANumberOnEveryPoint) {
  Panel panel{"A title", "tokens", "us", true, false, {}, {{"floor", 2}}, {}};
  panel.series.push_back({"ours", Series::Kind::kLine, {1, 10}, {3, 12}, {}, {}});
  const std::string svg = inline_svg(panel, "x");
  EXPECT_EQ(what_is_unbalanced(svg), "");
  for (const char* part :
       {"role=\"img\"", "aria-labelledby=\"x-title x-desc\"", "<title id=\"x-title\">A title<",
        "us over tokens; ours from 3 to 12; floor at 2.", "<title>ours, 10: 12.0</title>"})
    EXPECT_NE(svg.find(part), std::string::npos) << part << "\n" << svg;
  EXPECT_EQ(svg.find("fill=\"#fff\""), std::string::npos);
}

TEST(PlanTimes, OfThePlanOfAFileIsWhatItsPolicyTakesAndNoBetterThanItsBestEntry) {
  const MeasuredSpace space = synthetic_space({.skew = 1.5});
  const Plan plan = tune_from(space);
  const PlanTimes times = time_plan(space, plan);
  EvaluateOptions options;
  options.policies = {std::string(kMenusPolicy)};
  const Evaluation evaluation = evaluate(space, options);
  EXPECT_EQ(times.tokens, evaluation.tokens);
  EXPECT_TRUE(times.not_measured.empty());
  // Without noise both halves hold the same times, so what is learned on one is the plan's.
  EXPECT_EQ(times.chosen.us[0], evaluation.scores[0].times.us[0]);
  int loads = 0;
  for (const auto& part : times.runs)
    for (const int runs : part) loads += runs;
  EXPECT_GT(loads, static_cast<int>(times.tokens.size()));
  for (size_t p = 0; p < times.tokens.size(); ++p)
    EXPECT_LE(times.best_entry.us[0][p], times.chosen.us[0][p]);
}

TEST(PlanTimes, AnEntryThatWasNotMeasuredHasNoTimeAndAnotherShapeIsRefused) {
  const MeasuredSpace space = synthetic_space({});
  Plan plan = tune_from(space);
  plan.smaller.clear();
  for (PlanEntry& entry : plan.menu) entry.label += "-unknown";
  const PlanTimes times = time_plan(space, plan);
  EXPECT_EQ(times.not_measured.size(), plan.menu.size());
  for (const float us : times.chosen.us[0]) EXPECT_TRUE(std::isinf(us));
  plan.shape.hidden *= 2;
  EXPECT_NE(error_of([&] { time_plan(space, plan); }).find("plan make"), std::string::npos);
}

RunRequest request_of(MeasuredSpace space) {
  RunRequest request;
  request.file = {"somewhere/file.rmeas", std::move(space)};
  request.evaluate.resamples = 50;
  return request;
}

TEST(RunPage, SaysSimulatedStaleAndWhatIsMissing) {
  MeasuredSpace space = synthetic_space({.uniform_passes = false});
  space.provenance.gpu = "<b>NVIDIA</b>";
  space.provenance.sources = "xxh3-128:1";
  const Page page = run_page(request_of(space));
  const std::string html = html_of(page);
  EXPECT_EQ(what_is_unbalanced(html), "");
  EXPECT_EQ(html.find("<b>NVIDIA"), std::string::npos);
  EXPECT_NE(html.find("other device code"), std::string::npos);
  EXPECT_NE(html.find("vllm-tuning can&#39;t learn from this file"), std::string::npos) << html;
}

TEST(RunPage, AFileWithoutHeldOutPassesStillHasAPage) {
  const Page page = run_page(request_of(synthetic_space({.test_passes = 0})));
  const std::string html = html_of(page);
  EXPECT_EQ(what_is_unbalanced(html), "");
  EXPECT_EQ(html.find("nan"), std::string::npos);
  EXPECT_NE(html.find("No policy could be scored"), std::string::npos);
  EXPECT_NE(html.find("which flatters it"), std::string::npos);
}

TEST(RunPage, NoTimesAndNoConfigurationsAreNoReasonToFail) {
  MeasuredSpace space = synthetic_space({});
  for (auto& row : space.samples)
    for (auto& samples : row) samples.clear();
  EXPECT_EQ(what_is_unbalanced(html_of(run_page(request_of(space)))), "");
  space.candidates.clear(), space.samples.clear();
  EXPECT_EQ(what_is_unbalanced(html_of(run_page(request_of(space)))), "");
}

}  // namespace
}  // namespace ramp
