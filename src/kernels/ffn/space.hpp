// SPDX-License-Identifier: Apache-2.0
// The configurations of `ffn` as data: every legal one, and its label, knobs and template literal
// from the one list of fields.
#pragma once

#include <string>
#include <vector>

#include "kernels/ffn/config.h"

namespace ramp {

std::string ffn_label(const FfnConfig& c);  // "f1-r8-c256-s6-w2-dynamic-grouped"
// Whether these kernels are of the family; kFfnFamilies names those that are.
bool is_ffn_family(const std::string& name);
inline constexpr const char* kFfnFamilies = "f1 or f3";

std::string ffn_family(const FfnConfig& c);   // "f1" or "f3", its topology
std::string ffn_knobs(const FfnConfig& c);    // JSON object, what a plan stores
std::string ffn_literal(const FfnConfig& c);  // "{.rows = 8, ...}", for the compiler

// Reads knobs; throws Error naming the knob, its value and what is allowed.
FfnConfig ffn_from_knobs(const std::string& json);
FfnConfig ffn_from_label(const std::string& label);

// Whether `ordered` mode takes it: one order of sums, the same in every such configuration.
bool runs_ordered(const FfnConfig& c);

// Entries of one menu share it: threads a block, tile width, cluster and topology.
std::string ffn_occupancy(const FfnConfig& c);

// Every legal configuration that differs from its neighbours in a way that can show: `stages` at
// the deepest ring that fits and one step below, one staging buffer only where two don't fit or buy
// a stage.
std::vector<FfnConfig> ffn_space();

}  // namespace ramp
