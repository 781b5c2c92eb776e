// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/results.hpp"

#include <string>

#include "base/error.hpp"
#include "lab/paper/compared.hpp"

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

namespace {

bool is_ep_of_table8(const MeasuredFile& file) {
  return file.is_ep() && (file.placement().empty() || file.placement() == "balanced");
}
bool is_tp(const MeasuredFile& file) { return !file.is_ep(); }
bool is_olmoe(const MeasuredFile& file) {
  return file.space.provenance.model == "olmoe" && file.placement().empty();
}
bool is_ep8(const MeasuredFile& file) {
  return is_contiguous_ep(file) && file.base_layout() == "ep8";
}
bool is_any(const MeasuredFile&) { return true; }

}  // namespace

const std::vector<PaperResult>& paper_results() {
  static const std::vector<PaperResult> results = {
      {"table3", "choosing on serving traffic: speedups and gap, full space", paper_table3,
       is_contiguous_ep},
      {"table4", "tables given the cost model's inputs: gaps of per-GPU policies", paper_table4,
       is_contiguous_ep},
      {"table5", "the same on large batches of a held-out domain", paper_table5, is_contiguous_ep},
      {"table6", "imbalance between GPUs by layout", paper_table6},
      {"table7", "imbalance on EP8 by placement", paper_table7},
      {"table8", "the choice on a balanced placement", paper_table8, is_ep_of_table8},
      {"table9", "choosing among the six served configurations", paper_table9, is_contiguous_ep},
      {"table11", "TP: every GPU holds every expert", paper_table11, is_tp},
      {"table12", "registers and shared memory of menus of three and six", paper_table12, is_olmoe},
      {"figure3", "the batch and its balance over forward passes", paper_figure3},
      {"figure4", "the GPUs of one forward pass, layer by layer", paper_figure4},
      {"figure5", "the layer built up one change at a time, and its floor", paper_figure5,
       is_contiguous_ep},
      {"figure6", "the cost model on held-out loads", paper_figure6, is_contiguous_ep},
      {"regions", "which class of configurations wins, said before measuring", paper_regions,
       is_ep8},
      {"claims", "every number of its text", paper_claims_beside_ours, is_any},
      {"foreign", "the choice driving a kernel that is not ramp's", paper_foreign, nullptr, true},
  };
  return results;
}

const PaperResult& paper_result(std::string_view name) {
  std::string names;
  for (const PaperResult& result : paper_results()) {
    if (name == result.name) return result;
    names += (names.empty() ? "" : ", ") + std::string(result.name);
  }
  throw Error("result", std::string(name), names + ", " + std::string(kAllResults),
              "pick one of these");
}

}  // namespace ramp
