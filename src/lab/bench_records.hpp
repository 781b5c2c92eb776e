// SPDX-License-Identifier: Apache-2.0
// The records that `ramp bench layer --json FILE` keeps (docs/measuring.md): {"rows": [...]}, one
// row a model, layout, rank, tokens, load, mode and policy.  A new run replaces the rows it
// measured again and keeps the others; "conditions" says under which clocks each row was taken.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ramp {

struct BenchRecord {
  std::string model, layout, rank;
  int tokens = 0;
  std::string load, mode = "fast", policy, entry;
  double active_mb = 0, us = 0, choice_us = 0, ffn_us = 0, stream_us = 0, floor_us = 0, rel_err = 0;
  std::string gpu, commit, date;

  // Beside the row, under its key.
  int layers = 0, samples = 0, dropped = 0, sm_mhz = 0;
  double spread = 0;
  std::string router, throttle, routing;
};

nlohmann::ordered_json row_of(const BenchRecord& record);
std::string key_of(const nlohmann::ordered_json& row);

// The document with the records in it.  `old` is a file's text, or empty; throws Error naming
// `path` and the row when it is no such document.
nlohmann::ordered_json merged(const std::string& old, const std::string& path,
                              const std::vector<BenchRecord>& records);

// Reads the file where there is one, merges, and writes it whole.
void merge_into_file(const std::string& path, const std::vector<BenchRecord>& records);

}  // namespace ramp
