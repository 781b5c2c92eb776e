// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/results.hpp"

#include <string>

#include "base/error.hpp"

namespace ramp {

// One or two a file of this folder.
Report paper_table3(const PaperRequest&);
Report paper_table4(const PaperRequest&);
Report paper_table5(const PaperRequest&);
Report paper_table6(const PaperRequest&);
Report paper_table7(const PaperRequest&);
Report paper_table8(const PaperRequest&);
Report paper_table9(const PaperRequest&);
Report paper_table11(const PaperRequest&);
Report paper_table12(const PaperRequest&);
Report paper_figure3(const PaperRequest&);
Report paper_figure4(const PaperRequest&);
Report paper_figure5(const PaperRequest&);
Report paper_figure6(const PaperRequest&);
Report paper_regions(const PaperRequest&);
Report paper_claims_beside_ours(const PaperRequest&);
Report paper_foreign(const PaperRequest&);

const std::vector<PaperResult>& paper_results() {
  static const std::vector<PaperResult> results = {
      {"table3", "choosing on serving traffic: speedups and gap, full space", paper_table3},
      {"table4", "tables given the cost model's inputs: gaps of per-GPU policies", paper_table4},
      {"table5", "the same on large batches of a held-out domain", paper_table5},
      {"table6", "imbalance between GPUs by layout", paper_table6},
      {"table7", "imbalance on EP8 by placement", paper_table7},
      {"table8", "the choice on a balanced placement", paper_table8},
      {"table9", "choosing among the six served configurations", paper_table9},
      {"table11", "TP: every GPU holds every expert", paper_table11},
      {"table12", "registers and shared memory of menus of three and six", paper_table12},
      {"figure3", "the batch and its balance over forward passes", paper_figure3},
      {"figure4", "the GPUs of one forward pass, layer by layer", paper_figure4},
      {"figure5", "the layer built up one change at a time, and its floor", paper_figure5},
      {"figure6", "the cost model on held-out loads", paper_figure6},
      {"regions", "which class of configurations wins, said before measuring", paper_regions},
      {"claims", "every number of its text", paper_claims_beside_ours},
      {"foreign", "the choice driving a kernel that is not ramp's", paper_foreign, true},
  };
  return results;
}

const PaperResult& paper_result(std::string_view name) {
  std::string names;
  for (const PaperResult& result : paper_results()) {
    if (name == result.name) return result;
    names += (names.empty() ? "" : ", ") + std::string(result.name);
  }
  throw Error("result", std::string(name), names, "pick one of these");
}

}  // namespace ramp
