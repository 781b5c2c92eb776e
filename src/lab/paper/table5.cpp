// SPDX-License-Identifier: Apache-2.0
// Table 5: large batches of a domain that nothing was fitted on.
#include "lab/paper/compared.hpp"
#include "lab/paper/results.hpp"

namespace ramp {

Report paper_table5(const PaperRequest& request) {
  const std::string vllm(kVllmPolicy), trace = "trace-table", oracle(kOraclePolicy);
  return compared(
      {"table5",
       "Table 5: passes of 128 tokens and more; speedup over vLLM's tuning, then over "
       "the trace-tuned table, full space",
       "5",
       {{"trace-tuned", vllm, trace, true, false, 0},
        {"per-GPU table", vllm, "gpu-table", true, false, 1},
        {request.choice, vllm, request.choice, true, false, 2},
        {"exhaustive", vllm, oracle, true, false, 3},
        {request.choice + " over trace-tuned", trace, request.choice, true, false, 4, true},
        {"exhaustive over it", trace, oracle, true, false, 7}},
       is_contiguous_ep,
       "--held-out knowledge",
       {"The paper scores on a held-out domain; the last column says what each file "
        "holds."}},
      request);
}

}  // namespace ramp
