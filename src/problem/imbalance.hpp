// SPDX-License-Identifier: Apache-2.0
// How unevenly routing falls on the GPUs (the paper's Table 6) and how badly it fills tiles.
#pragma once

#include <span>
#include <vector>

#include "problem/load.hpp"

namespace ramp {

// Pairs of the most loaded GPU over the mean GPU; 1 where nothing was routed.
double imbalance_of(std::span<const ExpertLoad> gpus);

// Rows that tiles of `rows` rows compute over rows that hold a token; 1 where there is none.
double padding_factor(const ExpertLoad& load, int rows);

// Experts of a GPU that have a token.
int active_experts(const ExpertLoad& load);

inline constexpr int kPaddingRows[] = {8, 16, 32, 64};

// One layer of one pass, as the table sees it.
struct BalancePoint {
  int tokens = 0;
  double imbalance = 1;
  double active = 0;                 // mean over GPUs
  double padding[4] = {1, 1, 1, 1};  // of all GPUs together, at kPaddingRows
};

BalancePoint balance_point(int tokens, std::span<const ExpertLoad> gpus);

struct BalanceRow {
  int low = 0, high = 0;  // tokens of the passes in this row, both ends included
  int points = 0;         // passes x layers
  double median_tokens = 0;
  double median = 1, p90 = 1, worst = 1;  // imbalance
  double active = 0;                      // median
  double padding[4] = {1, 1, 1, 1};       // median
};

// By size of pass, rows without points left out; the last row is all passes of 128 tokens and more,
// as in Table 6.
std::vector<BalanceRow> balance_table(std::span<const BalancePoint> points);

}  // namespace ramp
