// SPDX-License-Identifier: Apache-2.0
// Table 11: tensor parallelism, where every GPU computes the whole batch's routing.
#include "lab/paper/compared.hpp"
#include "lab/paper/peers.hpp"
#include "lab/paper/results.hpp"

namespace ramp {

Report paper_table11(const PaperRequest& request) {
  const std::string vllm(kVllmPolicy), trace = "trace-table", oracle(kOraclePolicy);
  Report report = compared(
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
       {"Times are the expert kernel's; the paper's, and ours over Triton, are the layer's. The "
        "kernel alone under vLLM's tuning against Triton is open (-)."}},
      request);
  const std::vector<PeerLayer> peers = peer_layers(request);
  for (const PaperRow& row : paper_rows("11"))
    for (ReportRow& shown : report.rows)
      if (shown.cells[0].text == model_title(std::string(row.model)) &&
          shown.cells[1].text == layout_title(std::string(row.layout)))
        shown.cells[5].ours =
            over_triton(peers, std::string(row.model), std::string(row.layout), 0, request);
  report.notes.push_back(peers_note(peers));
  return report;
}

}  // namespace ramp
