// SPDX-License-Identifier: Apache-2.0
// Table 9: choosing among the served configurations, and what serving only these costs.
#include <fmt/format.h>

#include "lab/paper/compared.hpp"
#include "lab/paper/results.hpp"

namespace ramp {

Report paper_table9(const PaperRequest& request) {
  const std::string vllm(kVllmPolicy), menu(kMenuPolicy), menus(kMenusPolicy),
      oracle(kOraclePolicy);
  return compared(
      {"table9",
       fmt::format("Table 9: choosing among {} served configurations, passes of 128 tokens and "
                   "more; gaps in %",
                   request.menu.entries),
       "9",
       {{"over the table on them", "menu-table", menu, true, false, 0},
        {"gap to the best of them", menu, "menu-exhaustive", true, true, 1},
        {"over vLLM's tuning", vllm, menu, true, false, 2},
        {"gap to exhaustive", menu, oracle, true, true, 3},
        {"as a plan serves: over vLLM's", vllm, menus, true, false},
        {"gap to exhaustive", menus, oracle, true, true}},
       is_contiguous_ep,
       "--held-out knowledge",
       {fmt::format("The first four columns are the paper's one menu for all sizes; a plan serves "
                    "up to {} menus by pass size.",
                    request.menu.menus)}},
      request);
}

}  // namespace ramp
