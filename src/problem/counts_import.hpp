// SPDX-License-Identifier: Apache-2.0
// Recorded counts in: tokens of each expert, without the tokens.  SGLang's expert-distribution
// recorder, vLLM's EPLB window, EPLB's own input.  Counts of single passes become a trace; sums
// over a run say only what a placement may expect (placement.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "problem/placement.hpp"
#include "problem/trace_import.hpp"

namespace ramp {

struct ExpertCounts {
  std::string format;  // "npz logical_count", ...
  int steps = 0, layers = 0, experts = 0;
  std::vector<std::int64_t> counts;  // [step][layer][E], of logical experts

  std::span<const std::int64_t> of(int step, int layer) const {
    const std::size_t row = static_cast<std::size_t>(step) * layers + layer;
    return std::span(counts).subspan(row * experts, experts);
  }
};

// .npy, .npz (.gz) or JSON: an array [steps, layers, E] or [layers, E].  In .npz and JSON objects
// it is named logical_count, expert_load_window, expert_load_pass, global_physical_count or counts;
// beside it physical_to_logical_map, [slots] or [layers, slots], folds physical counts into logical
// ones.  A PyTorch file is refused with the line of Python that converts it: unpickling runs code.
ExpertCounts parse_counts(std::string_view bytes, const std::string& name);
ExpertCounts read_counts(const std::filesystem::path& path);

// Sums over all steps: [layers][E].
ExpectedLoads expected_loads(const ExpertCounts& counts);

// Each step is one forward pass.  Its tokens are dealt so that every layer has the recorded counts
// and no token an expert twice: loads are exact, which token chose which expert is not recorded.
// options.info names k (or the model).  Throws Error for steps that can't be a pass.
ImportedTrace trace_of_counts(const ExpertCounts& counts, const ImportOptions& options);

}  // namespace ramp
