// SPDX-License-Identifier: Apache-2.0
// What `ramp check` asks of every configuration: settings (a GPU's share of a layer and its
// weights) and cases (a batch and the reference's answer), made once and run by all configurations.
// The cases are the ways in which routing is awkward: empty experts, one expert for all, ragged
// tails, ids that are nobody's, NaN.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/ffn/reference.hpp"
#include "kernels/prepare/twin.hpp"
#include "problem/shape.h"

namespace ramp {

struct CheckSetting {
  std::string name;
  LocalShape shape;
  int experts = 0;              // of the layer
  int first_expert = 0;         // where expert_map is empty
  std::vector<int> expert_map;  // empty: contiguous
  bool many_pairs = false;      // has room for loads of tens of thousands of pairs
};

struct CheckCase {
  std::string name;
  HostBatch batch;
  // Rows that stand grouped by expert; batch.ids then holds each row's expert, for the reference.
  std::vector<int> ready_counts;
  int slots = 0;  // of each expert's ready rows; those that nobody fills are NaN and stay untouched
  // Of e4m3 rows (batch.hidden_q): their scales as they are delivered.
  std::vector<float> scales;
  ScaleStrides scale_strides;
  // By ids and in bf16.
  bool is_plain() const { return ready_counts.empty() && batch.hidden_q.empty(); }
  // Filled in by answer().
  std::vector<double> want;
  GroupedRows grouped;               // what prepare has to leave
  std::vector<std::uint8_t> rows_q;  // bit for bit; of e4m3 rows those that came
  std::vector<float> rows_scale;
  int most_pairs = 0;  // local pairs of the fullest token
};

// The settings, the first of them with all cases; small: one little setting.
std::vector<CheckSetting> check_settings(bool small);
// One setting for a shape of the caller's, few experts of it so that the reference stays cheap.
CheckSetting setting_of(const LocalShape& shape);
// The same with d cut down until the reference's multiplications for kRagged stay below `most`.
CheckSetting cheap_setting_of(const LocalShape& shape, double most);

// The map that LayerOptions and the reference understand.
std::vector<int> full_map(const CheckSetting& setting);

enum class Cases {
  kEvery,     // every awkward routing
  kOrdinary,  // uniform, and ragged loads
  kRagged     // the least that says whether a configuration computes what it should
};

// Fresh inputs for each seed.
std::vector<CheckCase> check_cases(const CheckSetting& setting, Cases which, std::uint64_t seed);

// The reference's answer and prepare's, from `threads` host threads (0: one a core).
void answer(const CheckSetting& setting, const HostWeights& weights, CheckCase& one,
            int threads = 0);

}  // namespace ramp
