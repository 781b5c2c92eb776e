// SPDX-License-Identifier: Apache-2.0
// What a table of the paper is asked for, and the measurements that it is made of.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "choice/evaluate.hpp"
#include "lab/paper/numbers.hpp"

namespace ramp {

struct MeasuredFile {
  std::string path;
  MeasuredSpace space;

  bool is_ep() const { return space.provenance.layout.starts_with("ep"); }
  std::string base_layout() const;  // "ep8" of "ep8+balanced"
  std::string placement() const;    // "balanced"; empty: contiguous
  std::string name() const;         // the path's last part
  // Times of a kernel that is not ours, out of a table (`ramp profile import`).
  bool is_imported() const { return space.provenance.how.starts_with("imported from"); }
};

// What all entries take together in one polymorphic kernel.
struct MenuResources {
  int registers = 0;     // a thread
  int shared_bytes = 0;  // a block
};

struct PaperRequest {
  std::vector<MeasuredFile> files;
  std::string records;      // a .json of `ramp bench layer`; empty: none
  std::string forced;       // ... of `ramp bench layer --forced`
  std::string peers;        // whole layers of other people beside (peers.hpp); empty: none
  std::string trace;        // a recorded .rtrace, for imbalance; empty: none
  std::string arrivals;     // for Figure 3; empty: Poisson
  bool regenerate = false;  // generate and count again what is shipped as scores (Tables 6 to 8)
  // Stands for the paper's choice over the full space, and another one beside it.
  std::string choice = "cost-model", beside = "cost-model-sized";
  MenuOptions menu{.entries = 6, .menus = 2, .least_gain = 0, .counts_company = false};
  int large_batch = kLargeBatch;
  int resamples = 2000;
  std::uint64_t seed = 1;
  // Compiles a menu as one kernel; throws Error where it can't.  Only the CLI sees kernels.
  std::function<MenuResources(const std::vector<Candidate>&)> compile_menu;
};

// A row of a table: what the paper has, what is measured, or both.  Rows of the paper come first in
// its order; a row has as many lines as there are files of its model and layout.
struct MatchedRow {
  std::string model, layout;
  const PaperRow* paper = nullptr;  // null: the paper has no such row
  const MeasuredFile* file = nullptr;
};

std::vector<MatchedRow> match_rows(const std::vector<PaperRow>& paper,
                                   const std::vector<MeasuredFile>& files,
                                   const std::function<bool(const MeasuredFile&)>& belongs);

// Evaluations of the rows' files, null where there is none; several at once on several cores.
// Files without held-out passes are left out, and the report says so.
std::vector<std::shared_ptr<const Evaluation>> evaluate_rows(
    const std::vector<MatchedRow>& rows, const std::vector<std::string>& policies,
    const PaperRequest& request, Report& report);

// `slow` over `fast` with its interval, over passes of least_tokens and more; unknown where one of
// them could not learn or no pass is left.
Number ratio_of(const Evaluation& evaluation, std::string_view slow, std::string_view fast,
                int least_tokens, const PaperRequest& request);
// The same less one: a gap.
Number gap_of(const Evaluation& evaluation, std::string_view policy, std::string_view bound,
              int least_tokens, const PaperRequest& request);

Number minus_one(Number ratio);

// Geometric mean over layouts of such ratios, passes drawn inside their layout.
class OverLayouts {
 public:
  void add(const Evaluation& evaluation, std::string_view slow, std::string_view fast,
           int least_tokens);
  Number mean(const PaperRequest& request) const;
  double worst() const;  // the largest of the layouts' means
  int layouts() const { return static_cast<int>(logs_.size()); }

 private:
  std::vector<std::vector<double>> logs_;
};

double exp_mean_of(const std::vector<double>& ratios);  // of ratios, not of their logs

// "other requests", "domain code", or what the routing label says of open loops.
std::string held_out_of(const MeasuredSpace& space);

// "12 passes (3), other requests": those with a time, and the large ones of them.  The evaluation
// holds exhaustive search.
std::string scored_on(const MeasuredFile& file, const Evaluation& evaluation,
                      const PaperRequest& request);

// `ramp tune` for a model and layout; extra: further flags.
std::string tune_command(const std::string& model, const std::string& layout,
                         const std::string& extra = "");

// "OLMoE-1B-7B"; the name itself where the catalog has none.  "EP8" of "ep8".
std::string model_title(const std::string& model);
std::string layout_title(const std::string& layout);

}  // namespace ramp
