// SPDX-License-Identifier: Apache-2.0
// The host's half of the soak (soak.hpp): what each replay routes, drawn from a seed and the
// replay's number alone, and what it must give.
//
// An output row is linear in the router's weights: the sum over its local ids of weight times what
// that expert gives for that row at weight 1.  So a table of the latter, one row of a pool by one
// expert, answers any routing at the cost of adding up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/check_cases.hpp"
#include "runtime/trial.hpp"

namespace ramp {

enum class SoakKind { kUniform, kSkewed, kOneExpert, kEmpty, kOneToken, kStrange };
inline constexpr int kSoakKinds = 6;
std::string soak_kind_name(SoakKind kind);

struct SoakLoad {
  SoakKind kind = SoakKind::kUniform;
  int tokens = 0;            // that were captured
  int live = 0;              // with an id; all ids of the others are -1
  std::vector<int> ids;      // [tokens, top_k] of the model
  std::vector<float> gates;  // [tokens, top_k]

  std::string name() const;  // "skewed, 37 of 512 tokens"
};

// Of a graph of `tokens` tokens; the same for the same seed and number, whatever was drawn before.
SoakLoad draw_soak_load(const CheckSetting& setting, int tokens, std::uint64_t seed, int number);

// What is captured: a call of `tokens` by ids; or one of rows in slots, whose counts are the pairs
// that such a load has of each local expert, more than the slots among them.
struct SoakSize {
  int tokens = 0, slots = 0;

  int rows(const LocalShape& shape) const { return slots > 0 ? slots * shape.experts : tokens; }
};
// By ids and in slots, each way in which `prepare` selects (runs.h).
std::vector<SoakSize> soak_sizes(const CheckSetting& setting);
// Which of these a replay takes: the last two, which are large, rarely, since one takes as long as
// a hundred others.
int soak_size_of(int sizes, std::uint64_t seed, int number);

// Rows of the pool, so many that the reference stays below some seconds: token t has row t % pool.
int soak_pool(const LocalShape& shape);

// What one entry gives.
struct SoakTable {
  int pool = 0, experts = 0, hidden = 0;
  std::vector<std::uint16_t> rows;  // [experts, pool, hidden] bf16, at a router weight of 1

  const std::uint16_t* row(int expert, int token) const {
    return rows.data() + (static_cast<std::size_t>(expert) * static_cast<std::size_t>(pool) +
                          static_cast<std::size_t>(token % pool)) *
                             static_cast<std::size_t>(hidden);
  }
};

// How far `output` [tokens, hidden] bf16 is off; infinite where something is NaN or where a token
// without local experts has anything but zeros.  map: of the whole model (full_map).
OutputError soak_error(const SoakTable& table, const SoakLoad& load, const std::vector<int>& map,
                       const std::uint16_t* output);

// Of rows in slots: pairs of each local expert.
std::vector<int> soak_counts(const SoakLoad& load, const std::vector<int>& map, int experts);
// Place s of expert e has row s % pool, at a weight of 1.  Infinite as well where a place beyond
// the counts has lost its `poison`.
OutputError soak_slots_error(const SoakTable& table, const std::vector<int>& counts, int slots,
                             const std::uint16_t* output, std::uint16_t poison);

// Local pairs of the fullest token.
int most_local_pairs(const SoakLoad& load, const std::vector<int>& map);

}  // namespace ramp
