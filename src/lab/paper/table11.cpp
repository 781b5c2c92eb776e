// SPDX-License-Identifier: Apache-2.0
// Table 11: tensor parallelism, where every GPU computes the whole batch's routing.
#include "lab/paper/compared.hpp"
#include "lab/paper/results.hpp"

namespace ramp {

Report paper_table11(const PaperRequest& request) {
  const std::string vllm(kVllmPolicy), trace = "trace-table", oracle(kOraclePolicy);
  return compared(
      {"table11",
       "Table 11: every GPU holds every expert; speedups one change after the other, all batches",
       "11",
       {{"kernel over vLLM's Triton", "", "", false, false, 0},
        {"trace-tuned", vllm, trace, false, false, 1},
        {request.choice, trace, request.choice, false, false, 2},
        {"total over Triton", "", "", false, false, 3},
        {"gap to exhaustive %", request.choice, oracle, false, true}},
       [](const MeasuredFile& file) { return !file.is_ep(); },
       "",
       {"vLLM's Triton MoE is not measured here, so the first change and the total are open (-). "
        "Times are the expert kernel's; the paper's are the layer's."}},
      request);
}

}  // namespace ramp
