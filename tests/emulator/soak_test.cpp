// SPDX-License-Identifier: Apache-2.0
// The soak in little, and what it rests on: that any routing gives the sum of what its pairs give
// alone, for every entry, load behind load in one workspace.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/ffn/space.hpp"
#include "runtime/check.hpp"
#include "runtime/soak_loads.hpp"
#include "tests/emulator/layer.hpp"

namespace ramp::emulator {
namespace {

constexpr int kPool = 12, kTokens = 30, kLoads = 8;
const CheckSetting kSetting{"small", {3, 2, 640, 256}, 6, 2, {}};

CheckCase case_of(const std::vector<std::uint16_t>& rows, int tokens, std::vector<int> ids,
                  std::vector<float> gates) {
  const auto d = static_cast<std::size_t>(kSetting.shape.hidden);
  std::vector<int> tiled;
  for (int t = 0; t < tokens; ++t) tiled.push_back(t % kPool);
  CheckCase c;
  c.batch.tokens = tokens;
  c.batch.hidden = rows_of(rows, tiled, d);
  c.batch.ids = std::move(ids);
  c.batch.gates = std::move(gates);
  c.batch.expert_map = full_map(kSetting);
  c.want.resize(c.batch.hidden.size());
  return c;
}

void soak(const std::string& labels, bool ordered, std::uint64_t seed) {
  SCOPED_TRACE(labels + (ordered ? " ordered" : ""));
  const Menu& menu = find_menu(labels);
  const HostWeights weights = random_host_weights(kSetting.shape, 5);
  const std::vector<std::uint16_t> rows = random_rows(kPool, kSetting.shape.hidden, 6);
  LayerSetup setup{kSetting, &weights, &menu, {}, 6, ordered};
  setup.theta.resize(menu.configs.size());
  const auto entries = static_cast<int>(menu.configs.size());

  std::vector<CheckCase> alone;
  for (int e = 0; e < kSetting.shape.experts; ++e) {
    std::vector<int> ids(kPool * 2, -1);
    for (std::size_t t = 0; t < kPool; ++t) ids[t * 2] = kSetting.first_expert + e;
    alone.push_back(case_of(rows, kPool, ids, std::vector<float>(kPool * 2, 1.0f)));
  }
  std::vector<SoakLoad> loads;
  std::vector<CheckCase> cases;
  for (int n = 0; n < kLoads; ++n) {
    loads.push_back(draw_soak_load(kSetting, kTokens, seed, n));
    cases.push_back(case_of(rows, kTokens, loads.back().ids, loads.back().gates));
  }
  std::vector<Pass> passes;
  for (int entry = 0; entry < entries; ++entry)
    for (const CheckCase& c : alone) passes.push_back({&c, entry, 4});
  const std::size_t tables = passes.size();
  for (int n = 0; n < kLoads; ++n)
    for (int entry = 0; entry < (ordered ? entries : 1); ++entry)
      passes.push_back(
          {&cases[static_cast<std::size_t>(n)], (n + entry) % entries, n % 7, n % 2 == 1});
  const std::vector<PassResult> results = run_passes(setup, passes, seed);

  std::vector<SoakTable> table(menu.configs.size(),
                               SoakTable{kPool, kSetting.shape.experts, kSetting.shape.hidden, {}});
  for (std::size_t i = 0; i < tables; ++i) {
    auto& to = table[static_cast<std::size_t>(passes[i].forced)].rows;
    to.insert(to.end(), results[i].output.begin(), results[i].output.end());
  }
  const std::vector<int> map = full_map(kSetting);
  for (std::size_t i = tables; i < passes.size(); ++i) {
    const auto n = static_cast<std::size_t>(passes[i].work - cases.data());
    const auto entry = static_cast<std::size_t>(passes[i].forced);
    const OutputError error = soak_error(table[entry], loads[n], map, results[i].output.data());
    const int pairs = std::max(1, most_local_pairs(loads[n], map));
    EXPECT_LE(error.all,
              fast_tolerance(
                  2 * output_adds(menu.configs[entry], kSetting.shape.intermediate, pairs), 1e6))
        << loads[n].name() << ", seed " << seed << ", number " << n;
    EXPECT_LE(error.worst_piece, kPieceTolerance) << loads[n].name();
    if (ordered && i > tables && passes[i - 1].work == passes[i].work) {
      EXPECT_EQ(results[i].output, results[i - 1].output) << loads[n].name();
    }
  }
}

TEST(EmulatedSoak, EveryRoutingGivesTheSumOfItsPairs) {
  for (const std::string& labels : menu_labels())
    if (find_menu(labels).configs.size() > 1) {
      soak(labels, false, 1);
      if (find_menu(labels).configs[0].topology == kF3) soak(labels, true, 2);
    }
}

}  // namespace
}  // namespace ramp::emulator
