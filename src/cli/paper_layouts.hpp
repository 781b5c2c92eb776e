// SPDX-License-Identifier: Apache-2.0
// The campaigns that a result of the paper rests on, as `ramp profile` would be told: from
// measurements that are there already, which say model, layout, routing and how much was sampled,
// or from a list of layouts.
#pragma once

#include <string>
#include <vector>

#include "cli/campaign.hpp"
#include "lab/paper/request.hpp"

namespace ramp::cli {

struct PaperLayout {
  CampaignFlags flags;  // output is a file name; whoever measures says the folder
  std::string routing;  // what the new file must say; empty: unknown before it is measured
  const MeasuredFile* like = nullptr;  // the file that it redoes
  std::string why_not;  // the file can't be redone: what it does not say, or what is missing

  std::string title() const { return flags.model.name + " " + layout_name; }
  std::string layout_name;  // "ep8+balanced"
};

// Recorded traces that the files were sampled from, found by their label; read at most once each.
class TraceFolder {
 public:
  explicit TraceFolder(std::string folder) : folder_(std::move(folder)) {}
  // Empty where there is none.
  std::string path_of(const std::string& label);

 private:
  std::string folder_;
  bool is_read_ = false;
  std::vector<std::pair<std::string, std::string>> paths_;  // label, path
};

// The campaign that made the file, as far as the file says.
PaperLayout layout_like(const MeasuredFile& file, TraceFolder& traces);

// "olmoe:ep8,olmoe:ep8+balanced": each as the file that has it, and generated routing where none
// does.  Throws Error for anything else.
std::vector<PaperLayout> layouts_of_list(const std::string& list,
                                         const std::vector<MeasuredFile>& files,
                                         TraceFolder& traces);

}  // namespace ramp::cli
