// SPDX-License-Identifier: Apache-2.0
// The imbalance table, for people and for machines.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "cli/table.hpp"
#include "problem/imbalance.hpp"

namespace ramp::cli {

inline nlohmann::json balance_json(const BalanceRow& row) {
  nlohmann::json padding = nlohmann::json::object();
  for (int i = 0; i < 4; ++i) padding[std::to_string(kPaddingRows[i])] = row.padding[i];
  nlohmann::json out = {{"low", row.low},
                        {"points", row.points},
                        {"median_tokens", row.median_tokens},
                        {"median", row.median},
                        {"p90", row.p90},
                        {"worst", row.worst},
                        {"active_experts", row.active},
                        {"padding", padding}};
  if (row.high < (1 << 30)) out["high"] = row.high;
  return out;
}

inline std::string balance_text(std::span<const BalanceRow> rows) {
  Table table({"<tokens of a pass", "loads", "median", "90 %", "worst", "active/GPU", "x8", "x16",
               "x32", "x64"});
  for (const BalanceRow& row : rows)
    table.add({row.high >= (1 << 30) ? fmt::format("{} and more", row.low)
                                     : fmt::format("{}-{}", row.low, row.high),
               std::to_string(row.points), fmt::format("{:.2f}", row.median),
               fmt::format("{:.2f}", row.p90), fmt::format("{:.2f}", row.worst),
               fmt::format("{:.1f}", row.active), fmt::format("{:.2f}", row.padding[0]),
               fmt::format("{:.2f}", row.padding[1]), fmt::format("{:.2f}", row.padding[2]),
               fmt::format("{:.2f}", row.padding[3])});
  return table.text();
}

}  // namespace ramp::cli
