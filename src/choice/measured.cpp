// SPDX-License-Identifier: Apache-2.0
#include "choice/measured.hpp"

#include <cmath>
#include <set>

#include "base/error.hpp"

namespace ramp {
namespace {

constexpr const char* kNext = "profile again, or repair the table that was imported";

void check_candidate(const Candidate& c, size_t index) {
  const std::string at = fmt::format("candidates[{}] ({})", index, c.label);
  if (c.label.empty()) throw Error(at + ".label", "an empty text", "a unique name", kNext);
  if (c.grid.phases < 1 || c.grid.phases > Grid::kMaxPhases)
    throw Error(at + ".grid.phases", std::to_string(c.grid.phases), "1 or 2", kNext);
  for (int p = 0; p < c.grid.phases; ++p) {
    const Phase& phase = c.grid.phase[p];
    if (phase.rows < 1 || phase.slots < 1 || phase.col_tiles < 1 || phase.col_tiles > kMaxColTiles)
      throw Error(
          at + ".grid",
          fmt::format("rows {}, col_tiles {}, slots {}", phase.rows, phase.col_tiles, phase.slots),
          fmt::format("rows and slots from 1, col_tiles from 1 to {}", kMaxColTiles), kNext);
  }
}

void check_load(const std::vector<int>& load, size_t index) {
  const std::string at = fmt::format("loads[{}]", index);
  if (load.size() > static_cast<size_t>(kMaxExperts))
    throw Error(at, fmt::format("{} experts", load.size()), fmt::format("up to {}", kMaxExperts),
                kNext);
  long long pairs = 0;
  for (int n : load) {
    if (n < 0) throw Error(at, std::to_string(n), "counts from 0", kNext);
    pairs += n;
  }
  if (pairs > kMaxPairs)
    throw Error(at, fmt::format("{} token-expert pairs", pairs), fmt::format("up to {}", kMaxPairs),
                kNext);
}

}  // namespace

void check_space(const MeasuredSpace& space) {
  const size_t candidates = space.candidates.size(), loads = space.loads.size();
  std::set<std::string> labels;
  for (size_t c = 0; c < candidates; ++c) {
    check_candidate(space.candidates[c], c);
    if (!labels.insert(space.candidates[c].label).second)
      throw Error(fmt::format("candidates[{}].label", c), space.candidates[c].label,
                  "labels that differ", kNext);
  }
  for (size_t l = 0; l < loads; ++l) check_load(space.loads[l], l);
  if (space.gpus < 1) throw Error("gpus", std::to_string(space.gpus), "1 or more", kNext);
  for (size_t p = 0; p < space.passes.size(); ++p) {
    if (space.passes[p].tokens < 0)
      throw Error(fmt::format("passes[{}].tokens", p), std::to_string(space.passes[p].tokens),
                  "0 or more", kNext);
    for (int l : space.passes[p].load_of_gpu)
      if (l < -1 || l >= static_cast<int>(loads))
        throw Error(fmt::format("passes[{}].load_of_gpu", p), std::to_string(l),
                    fmt::format("-1 (no token) or a load below {}", loads), kNext);
  }
  for (size_t i = 0; i < space.shipped.size(); ++i) {
    const ShippedPick& pick = space.shipped[i];
    if (i && pick.tokens <= space.shipped[i - 1].tokens)
      throw Error(fmt::format("shipped[{}].tokens", i), std::to_string(pick.tokens),
                  "ascending sizes", kNext);
    if (!labels.count(pick.label))
      throw Error(fmt::format("shipped {}", pick.tokens), pick.label,
                  "the name of a configuration of these measurements", kNext);
  }
  if (space.samples.size() != candidates)
    throw Error("samples", fmt::format("{} rows", space.samples.size()),
                fmt::format("{}, one a candidate", candidates), kNext);
  for (size_t c = 0; c < candidates; ++c) {
    if (space.samples[c].size() != loads)
      throw Error(fmt::format("samples[{}]", c), fmt::format("{} columns", space.samples[c].size()),
                  fmt::format("{}, one a load", loads), kNext);
    for (size_t l = 0; l < loads; ++l)
      for (float us : space.samples[c][l])
        if (!std::isfinite(us) || us <= 0)
          throw Error(fmt::format("samples[{}][{}]", c, l), fmt::format("{} us", us),
                      "positive, finite times", kNext);
  }
}

}  // namespace ramp
