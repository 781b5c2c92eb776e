// SPDX-License-Identifier: Apache-2.0
// Other people's routing records in: NumPy arrays (.npy, .npy.gz, .npz) and JSON lines, the latter
// also as vLLM and SGLang return them (routed_experts).  docs/traces.md says what each must look
// like.  An import reports what it found and refuses content that no router makes, unless it is
// forced.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "problem/trace.hpp"

namespace ramp {

enum class AxisOrder {
  kLayerTokenK,  // [layer, token, k]
  kTokenLayerK,  // [token, layer, k], as vLLM's captures
};

struct ImportOptions {
  // What the file or its sidecar doesn't say.  Empty and 0: take theirs.  The description's
  // `layers` are decoder layers.
  TraceInfo info;
  bool is_phase_given = false;
  AxisOrder order = AxisOrder::kLayerTokenK;
  std::filesystem::path sidecar;  // empty: NAME.json beside NAME.ids.npy.gz
  // Cut a record that knows neither requests nor passes into passes of so many tokens; 0: leave it.
  int pass_tokens = 0;
  // Keep at most so many requests of each domain, evenly spaced over the file; 0: all.
  int requests_per_domain = 0;
  bool force = false;
};

struct ImportReport {
  std::string format;
  std::int64_t tokens = 0;
  std::int64_t rows = 0;             // tokens x layers
  std::int64_t out_of_range = 0;     // ids that are neither an expert nor -1
  std::int64_t padding = 0;          // ids that are -1
  std::int64_t duplicate_rows = 0;   // rows that name an expert twice
  double equal_rows = 0;             // share of rows equal to the row of the token before
  std::vector<int> constant_layers;  // every row the same
  std::vector<int> copied_layers;    // all ids equal to an earlier layer's
  int highest_id = -1;
  std::int64_t dropped_requests = 0;
  std::int64_t dropped_tokens = 0;
  std::vector<std::string> complaints;  // each a reason to refuse
};

struct ImportedTrace {
  RoutingTrace trace;
  ImportReport report;
};

// Throws Error for what can't be read, and for complaints without `force`.  Forced: ids out of
// range and repeats inside a row become -1.
ImportedTrace import_trace(const std::filesystem::path& path, const ImportOptions& options);

// The parts, for tests and for bytes that come from elsewhere.
ImportedTrace import_npy(std::string_view npy, std::string_view sidecar_json,
                         const ImportOptions& options);
ImportedTrace import_npz(std::string_view npz, const ImportOptions& options);
ImportedTrace import_json_lines(std::string_view text, const ImportOptions& options);

// Ids as an importer reads them, before they are judged: any int32, [token][layer][k].
struct RawIds {
  std::int64_t tokens = 0;
  int layers = 0;
  int k = 0;
  std::vector<std::int32_t> ids;
};

// Fills trace.ids from raw and the report; throws as import_trace does.  trace.info must be
// complete.
void judge_ids(const RawIds& raw, bool force, RoutingTrace& trace, ImportReport& report);

// Adds the boundaries of passes of n tokens each, the last one shorter.
void cut_into_passes(RoutingTrace& trace, int pass_tokens);

// Keeps at most n requests a domain.
void thin_requests(RoutingTrace& trace, int requests_per_domain, ImportReport& report);

// What an importer knows completed by what the user said: layers by the catalog where they were
// only counted.
TraceInfo complete_info(TraceInfo known, const ImportOptions& options, int layers, int k);

}  // namespace ramp
