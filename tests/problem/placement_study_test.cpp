// SPDX-License-Identifier: Apache-2.0
#include "problem/placement_study.hpp"

#include <gtest/gtest.h>

#include <map>

#include "base/error.hpp"
#include "problem/calibration.hpp"
#include "problem/trace_file.hpp"
#include "tests/problem/small_trace.hpp"

namespace ramp {
namespace {

// Four experts on two GPUs; experts 0 and 1 are hot in domain 0, experts 0 and 2 in domain 1.
PassCounts two_domains(int passes) {
  PassCounts out;
  out.experts = 4;
  out.top_k = 1;
  out.layers = 1;
  out.domains = {"a", "b"};
  for (int domain = 0; domain < 2; ++domain)
    for (int p = 0; p < passes; ++p) {
      out.passes.push_back({domain, domain, 200});
      const std::vector<std::int32_t> counts = domain == 0
                                                   ? std::vector<std::int32_t>{90, 90, 10, 10}
                                                   : std::vector<std::int32_t>{90, 10, 90, 10};
      out.counts.insert(out.counts.end(), counts.begin(), counts.end());
    }
  return out;
}

std::map<std::string, double> medians(const std::vector<PlacementResult>& results) {
  std::map<std::string, double> out;
  for (const PlacementResult& result : results) out[result.placement] = result.table.back().median;
  return out;
}

// By hand.  Contiguous (0 1 | 2 3): 1.8 in domain a, 1 in b.  Offline, domain a: balanced on b's
// loads parts 0 and 2, and puts 1 (a tie with 3) beside 2 or 0.  Every 4: balanced on its own.
TEST(PlacementStudy, GivesEachPlacementTheSamePasses) {
  StudyOptions options;
  options.period = 4;
  options.replicas.redundant = 2;
  const std::vector<PlacementResult> results =
      study_placements(two_domains(12), parse_layout("ep2"), options);
  const auto median = medians(results);
  ASSERT_EQ(results.size(), 6u);
  for (const PlacementResult& result : results) EXPECT_EQ(result.table.back().points, 16);
  EXPECT_DOUBLE_EQ(median.at("contiguous"), 1.4);  // half 1.8, half 1.0
  EXPECT_DOUBLE_EQ(median.at("every 4"), 1.0);
  EXPECT_DOUBLE_EQ(median.at("every 4 + 2 replicas"), 1.0);
  EXPECT_LT(median.at("uniform"), 1.2);
}

TEST(PlacementStudy, AMapOfTheOtherDomainIsWrongForThisOne) {
  StudyOptions options;
  options.period = 1;
  PassCounts traffic = two_domains(3);
  // Domain b: 0 and 1 together are its balance (100 | 100), which is a's worst (180 | 20).
  for (std::size_t i = 12; i < traffic.counts.size(); i += 4) {
    const std::int32_t b[] = {90, 10, 60, 40};
    std::copy(b, b + 4, traffic.counts.begin() + static_cast<std::ptrdiff_t>(i));
  }
  const auto median = medians(study_placements(traffic, parse_layout("ep2"), options));
  EXPECT_GT(median.at("offline"), 1.2);
  EXPECT_LE(median.at("every 1"), 1.0 + 1e-9);
}

TEST(PlacementStudy, RefusesSessionsShorterThanThePeriod) {
  const std::string error =
      error_of([] { study_placements(two_domains(12), parse_layout("ep2"), {.period = 12}); });
  EXPECT_NE(error.find("longest session, 12"), std::string::npos) << error;
  EXPECT_THROW(study_placements(two_domains(12), parse_layout("tp2"), {.period = 4}), Error);
}

// The recorded routing shows the paper's Table 7: offline barely helps, every 128 does.
TEST(PlacementStudy, OfRecordedRoutingReBalancingHelpsAndOfflineHardly) {
  const ReadTrace read =
      read_trace(std::string(RAMP_SOURCE_DIR) + "/data/traces/gptoss20b_decode.rtrace");
  ReplayOptions replay;
  replay.concurrency = 160;
  PassCounts traffic = replayed_counts(read.trace, replay, 192);
  const auto median = medians(study_placements(traffic, parse_layout("ep8")));
  EXPECT_NEAR(median.at("uniform"), 1.15, 0.03);
  EXPECT_NEAR(median.at("contiguous"), 1.58, 0.12);
  EXPECT_GT(median.at("offline"), median.at("contiguous") - 0.15);
  EXPECT_LT(median.at("every 128"), median.at("contiguous") - 0.25);
}

// The scores that every result repeats are what the generator really gives.
TEST(Calibration, ScoresAreThoseOfTheGenerator) {
  ScoreOptions options;
  options.layers = 12;
  options.passes = 40;
  options.seeds = {11};
  for (const char* model : {"olmoe", "phi35"}) {
    std::map<std::string, double> shipped;
    for (const CalibrationScore& score : calibration_scores(model))
      shipped[score.table + score.column] = score.generated;
    const auto measured = measure_calibration(find_model(model), find_calibration(model), options);
    EXPECT_EQ(measured.size(), shipped.size());
    for (const CalibrationScore& score : measured) {
      // One seed, few layers, short sessions: medians move by some per cent of themselves.
      const double tolerance = 0.07 * score.generated;
      EXPECT_NEAR(score.generated, shipped.at(score.table + score.column), tolerance)
          << model << " Table " << score.table << " " << score.column;
      if (score.paper > 0) {
        EXPECT_NEAR(score.generated, score.paper, 2 * tolerance) << model << " " << score.column;
      }
    }
  }
}

TEST(Calibration, TheNoteNamesEveryGeneratedPart) {
  const std::string label = "generated: olmoe (g 0.690 d 0.565), seed 3";
  const std::string note = calibration_note(label);
  EXPECT_NE(note.find("calibration of olmoe"), std::string::npos) << note;
  EXPECT_NE(note.find("/1.89"), std::string::npos) << note;  // Table 6, EP16
  EXPECT_NE(note.find("every 128 "), std::string::npos) << note;
  EXPECT_EQ(calibration_note("recorded: somebody"), "");
  EXPECT_EQ(calibration_note("generated: uniform, seed 3"), "");
  EXPECT_NE(calibration_note("recorded: x; scored on generated: qwen3-30b (g 1), seed 1")
                .find("calibration of qwen3-30b"),
            std::string::npos);
  EXPECT_EQ(calibration_note(label + "; scored on " + label), note);
}

}  // namespace
}  // namespace ramp
