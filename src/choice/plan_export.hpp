// SPDX-License-Identifier: Apache-2.0
// A plan's choices as what kernels that are not ours read (docs/foreign-kernels.md).  Such a kernel
// looks its configuration up by the tokens of a pass, before the routing is known, so the plan is
// asked on the loads that passes of that size bring: for all GPUs alike, or for each GPU a table of
// its own, which is as near to the load as a table comes.  A caller that knows the load asks for
// it.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "choice/measured.hpp"
#include "choice/plan.hpp"

namespace ramp {

struct ExportFormat {
  const char* name;     // "vllm"
  const char* summary;  // one line
  std::vector<const char*> knobs;
  // What its reader looks for; the plan says experts, sizes and GPU.
  std::string (*file_name)(const Plan& plan, const std::string& dtype,
                           const std::string& block_shape);
};

const std::vector<ExportFormat>& export_formats();
// Throws Error naming those that exist.
const ExportFormat& export_format(std::string_view name);

// For passes of about so many tokens (vLLM's batch sizes): the entry with the least predicted time
// of the slowest GPU, geometric mean over passes, all GPUs running it.
struct SizePick {
  int tokens = 0;
  const PlanEntry* entry = nullptr;
  int passes = 0;
  double predicted_us = 0;
};

// gpu: of this one alone; -1: of all.  Learning passes and held-out ones, uniform draws only where
// there is nothing else.  Throws Error where the traffic is of another shape or has no passes.
std::vector<SizePick> picks_by_size(const Plan& plan, const MeasuredSpace& traffic, int gpu);

// The knobs that a format has, in its order; throws Error for an entry that lacks one.
nlohmann::ordered_json exported_entry(const ExportFormat& format, const PlanEntry& entry);
// {"128": {...}, "256": {...}}
nlohmann::ordered_json exported_table(const ExportFormat& format, std::span<const SizePick> picks);

}  // namespace ramp
