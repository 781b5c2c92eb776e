// SPDX-License-Identifier: Apache-2.0
// `ramp paper --measure`: the measurements that a result rests on, made or completed on this
// machine before the result is computed.  Every layout is one campaign of `ramp profile`, so a
// killed run loses what a killed profile loses, a batch.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/paper_layouts.hpp"

namespace ramp::cli {

struct PaperMeasureFlags {
  bool measure = false, print = false;
  std::string into = "build/paper", layouts, generate, timer = "gpu";
  double minutes = 1;
  int passes = 0;  // training passes, half as many test passes; 0: as the files have

  bool asked() const { return measure || print; }
};

void add_paper_measure_flags(CLI::App& app, PaperMeasureFlags& flags);

// The flags' share of the layouts: minutes, timer, the folder in front of each file.  Throws Error
// where two layouts would write one file or a shipped one.
void finish_layouts(std::vector<PaperLayout>& layouts, const PaperMeasureFlags& flags,
                    const std::string& data);

// The commands, what is there already, and how long it would take, on stdout.
void print_layouts(const std::vector<PaperLayout>& layouts);

struct PaperMeasured {
  std::vector<std::string> files;     // in the layouts' order; those that could be measured
  std::vector<std::string> failures;  // one line a layout that could not
};

// Throws CampaignInterrupted, and Error before anything is measured where this machine can't.
PaperMeasured measure_layouts(const std::vector<PaperLayout>& layouts);

}  // namespace ramp::cli
