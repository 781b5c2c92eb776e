// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/results.hpp"

#include <string>

#include "base/error.hpp"

namespace ramp {

// One or two a file of this folder.
Report paper_table3(const PaperRequest&);
Report paper_table4(const PaperRequest&);
Report paper_table5(const PaperRequest&);
Report paper_table9(const PaperRequest&);
Report paper_table11(const PaperRequest&);
Report paper_table12(const PaperRequest&);

const std::vector<PaperResult>& paper_results() {
  static const std::vector<PaperResult> results = {
      {"table3", "choosing on serving traffic: speedups and gap, full space", paper_table3},
      {"table4", "tables given the cost model's inputs: gaps of per-GPU policies", paper_table4},
      {"table5", "the same on large batches of a held-out domain", paper_table5},
      {"table9", "choosing among the six served configurations", paper_table9},
      {"table11", "TP: every GPU holds every expert", paper_table11},
      {"table12", "registers and shared memory of menus of three and six", paper_table12},
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
