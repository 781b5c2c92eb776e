// SPDX-License-Identifier: Apache-2.0
// A small MeasuredSpace whose times follow Eq. 3, and a folder that goes away with the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include "base/error.hpp"
#include "choice/measured.hpp"
#include "lab/measurements.hpp"

namespace ramp {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ramp-lab-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// `passes` forward passes of a layer of 8 experts a GPU on 2 GPUs; skewed, every fourth one for
// testing.
inline Workload example_workload(int passes, unsigned seed = 1) {
  Workload workload;
  workload.provenance = {.model = "example", .layout = "ep2", .routing = "generated: test"};
  workload.shape = {.experts = 8, .top_k = 2, .hidden = 1024, .intermediate = 512};
  workload.gpus = 2;
  std::mt19937 random(seed);
  std::map<std::vector<int>, int> seen;
  for (int p = 0; p < passes; ++p) {
    MeasuredPass pass{.tokens = 1 << (p % 9),
                      .layer = p % 3,
                      .domain = p % 2 ? "math" : "code",
                      .role = p % 4 == 3 ? Role::kTest : Role::kTrain};
    for (int g = 0; g < 2; ++g) {
      std::vector<int> counts(8, 0);
      for (int t = 0; t < pass.tokens; ++t) ++counts[std::min(random() % 8, random() % 8)];
      std::sort(counts.rbegin(), counts.rend());
      const auto [it, is_new] = seen.emplace(counts, static_cast<int>(workload.loads.size()));
      if (is_new) workload.loads.push_back(counts);
      pass.load_of_gpu.push_back(it->second);
    }
    workload.passes.push_back(pass);
  }
  return workload;
}

inline TimedConfig example_config(int rows, int col_tiles,
                                  ConfigStatus status = ConfigStatus::kOk) {
  TimedConfig config;
  config.candidate.label = "f1-r" + std::to_string(rows) + "-q" + std::to_string(col_tiles);
  config.candidate.knobs = "{\"rows\":" + std::to_string(rows) + "}";
  config.candidate.grid.phase[0] = {rows, col_tiles, 132};
  config.candidate.occupancy = "1x384";
  config.status = status;
  return config;
}

inline void expect_equal(const MeasuredSpace& a, const MeasuredSpace& b) {
  EXPECT_EQ(a.provenance.model, b.provenance.model);
  EXPECT_EQ(a.provenance.layout, b.provenance.layout);
  EXPECT_EQ(a.provenance.routing, b.provenance.routing);
  EXPECT_EQ(a.provenance.gpu, b.provenance.gpu);
  EXPECT_EQ(a.provenance.sources, b.provenance.sources);
  EXPECT_EQ(a.shape.experts, b.shape.experts);
  EXPECT_EQ(a.shape.intermediate, b.shape.intermediate);
  EXPECT_EQ(a.gpus, b.gpus);
  EXPECT_TRUE(a.loads == b.loads);
  ASSERT_EQ(a.samples.size(), b.samples.size());
  int different = 0;  // one line, not the whole table
  for (std::size_t c = 0; c < a.samples.size(); ++c)
    for (std::size_t l = 0; l < a.samples[c].size(); ++l)
      if (a.samples[c][l] != b.samples[c][l] && different++ == 0)
        ADD_FAILURE() << a.candidates[c].label << " on load " << l << ": "
                      << testing::PrintToString(a.samples[c][l]) << " and "
                      << testing::PrintToString(b.samples[c][l]);
  EXPECT_EQ(different, 0);
  ASSERT_EQ(a.candidates.size(), b.candidates.size());
  for (std::size_t c = 0; c < a.candidates.size(); ++c) {
    EXPECT_EQ(a.candidates[c].label, b.candidates[c].label);
    EXPECT_EQ(a.candidates[c].knobs, b.candidates[c].knobs);
    EXPECT_EQ(a.candidates[c].occupancy, b.candidates[c].occupancy);
    EXPECT_EQ(grid_text(a.candidates[c].grid), grid_text(b.candidates[c].grid));
  }
  ASSERT_EQ(a.passes.size(), b.passes.size());
  for (std::size_t p = 0; p < a.passes.size(); ++p) {
    EXPECT_EQ(a.passes[p].tokens, b.passes[p].tokens);
    EXPECT_EQ(a.passes[p].layer, b.passes[p].layer);
    EXPECT_EQ(a.passes[p].domain, b.passes[p].domain);
    EXPECT_EQ(a.passes[p].role, b.passes[p].role);
    EXPECT_EQ(a.passes[p].load_of_gpu, b.passes[p].load_of_gpu);
  }
}

// The text of the Error that `act` throws; fails the test where it throws none.
template <class Act>
std::string error_of(Act&& act) {
  try {
    act();
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

}  // namespace ramp
