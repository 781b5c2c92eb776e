// SPDX-License-Identifier: Apache-2.0
// Table 3: choosing on serving traffic that nothing was fitted on, over the full space.
#include "lab/paper/compared.hpp"
#include "lab/paper/results.hpp"

namespace ramp {

Report paper_table3(const PaperRequest& request) {
  const std::string &choice = request.choice, oracle(kOraclePolicy);
  return compared({"table3",
                   "Table 3: choosing on serving traffic; speedup of " + choice +
                       " over each policy, full space",
                   "3",
                   {{"over vLLM's tuning", "vllm-tuning", choice, false, false, 0},
                    {">=128", "vllm-tuning", choice, true, false, 1},
                    {"over trace-tuned", "trace-table", choice, false, false, 2},
                    {"over per-GPU table", "gpu-table", choice, false, false, 3},
                    {"gap %", choice, oracle, false, true, 4},
                    {request.beside + " gap %", request.beside, oracle, false, true}},
                   is_contiguous_ep,
                   "--test-rate 8,16,32",
                   {"The paper scores on open loops; the last column says what each file holds."}},
                  request);
}

}  // namespace ramp
