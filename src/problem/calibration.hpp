// SPDX-License-Identifier: Apache-2.0
// The numbers that generated routing is drawn with (docs/traces.md has the formula), and how well
// it then meets the imbalance that the paper reports.  Every result that rests on generated routing
// shows the scores of its calibration.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "problem/catalog.hpp"

namespace ramp {

// Standard deviations of the logit's parts, and the shape of the popularities.
struct Calibration {
  std::string model;      // catalog name
  double popularity = 0;  // s_g, never changes
  double domain = 0;      // s_d, one vector a domain
  double drift = 0;       // s_p, AR(1) over passes
  double request = 0;     // s_r, one vector a request
  // Neighbours inside blocks of E/8 experts: above 0 they go together, below 0 against each other.
  double block = 0;
  double tail = 0;           // fattens the upper tail of popularity and domain
  double drift_passes = 64;  // time constant of the drift
};

std::span<const Calibration> calibrations();
// DeepSeek-R1 has DeepSeek-V3's.  Throws Error, with the list, for a model without one.
const Calibration& find_calibration(const std::string& model);

// The most loaded GPU over the mean, medians: of one cell of a table of the paper.
struct CalibrationScore {
  std::string table;     // "6": contiguous, passes of 128 tokens and more; "7": EP8, 128 to 511
  std::string column;    // "EP4" .. "EP32"; "uniform", "contiguous", "offline", "every 128"
  double generated = 0;  // what the calibration gives
  double paper = 0;      // 0: the paper has no number there
};

// As they were measured for this version (calibration.cpp says how); empty for a model without a
// calibration.
std::vector<CalibrationScore> calibration_scores(const std::string& model);

struct ScoreOptions {
  int layers = 16;   // at most
  int passes = 128;  // recorded of each of the four domains, every fourth of the server's
  std::vector<std::uint64_t> seeds = {11, 12, 13};  // none that a calibration was fitted on
};

// The same, measured now: a few seconds a model.
std::vector<CalibrationScore> measure_calibration(const Model& model,
                                                  const Calibration& calibration,
                                                  const ScoreOptions& options = {});

// For a routing label (trace.hpp) of generated routing, one line with its calibration's scores;
// empty for recorded routing.
std::string calibration_note(const std::string& routing);

}  // namespace ramp
