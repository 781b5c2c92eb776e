// SPDX-License-Identifier: Apache-2.0
// What an import refuses: ids that are no experts, dummy warm-up tokens, layers that are copies, an
// E that is wrong.
#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "problem/catalog.hpp"
#include "problem/trace_import.hpp"

namespace ramp {
namespace {

constexpr double kMaxDuplicateShare = 0.01;
// Two neighbours of a request share about 40 % of their experts and seldom all; a dummy batch
// shares all.
constexpr double kMaxEqualShare = 0.5;
constexpr double kMaxEqualShareTop1 = 0.9;  // with one expert a token, equal neighbours are common
constexpr std::int64_t kEnoughTokens = 32;  // below, coincidences say nothing

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size() && i < 8; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", numbers[i]);
  if (numbers.size() > 8) text += fmt::format(", ... ({} in all)", numbers.size());
  return text;
}

}  // namespace

void judge_ids(const RawIds& raw, bool force, RoutingTrace& trace, ImportReport& report) {
  check_trace_info(trace.info);
  const int k = raw.k, layers = raw.layers, experts = trace.info.experts;
  if (layers != trace.layers() || k != trace.info.top_k)
    throw Error("shape of the ids", fmt::format("{} layers, k {}", layers, k),
                fmt::format("{} layers, k {}", trace.layers(), trace.info.top_k),
                "check --layers and --k, or the order of the axes (--order)");
  report.tokens = raw.tokens;
  report.rows = raw.tokens * layers;
  trace.ids.assign(raw.ids.size(), -1);
  std::string first_bad;
  std::int64_t equal = 0;
  std::vector<std::int64_t> equal_in_layer(layers, 0);
  const std::int64_t row_ids = static_cast<std::int64_t>(layers) * k;
  for (std::int64_t token = 0; token < raw.tokens; ++token)
    for (int layer = 0; layer < layers; ++layer) {
      const std::int32_t* in =
          raw.ids.data() + token * row_ids + static_cast<std::int64_t>(layer) * k;
      std::int16_t* out = trace.ids.data() + token * row_ids + static_cast<std::int64_t>(layer) * k;
      bool repeats = false;
      for (int j = 0; j < k; ++j) {
        const std::int32_t id = in[j];
        if (id == -1) {
          ++report.padding;
        } else if (id < 0 || id >= experts) {
          if (report.out_of_range++ == 0)
            first_bad = fmt::format("id {} at token {}, layer {}", id, token, layer);
        } else if (std::find(out, out + j, static_cast<std::int16_t>(id)) != out + j) {
          repeats = true;
        } else {
          out[j] = static_cast<std::int16_t>(id);
        }
        report.highest_id = std::max(report.highest_id, id);
      }
      report.duplicate_rows += repeats;
      if (token > 0 && std::equal(in, in + k, in - row_ids)) {
        ++equal;
        ++equal_in_layer[layer];
      }
    }
  report.equal_rows =
      raw.tokens > 1 ? static_cast<double>(equal) / static_cast<double>((raw.tokens - 1) * layers)
                     : 0;

  if (raw.tokens == 0) report.complaints.push_back("no tokens");
  if (report.out_of_range > 0)
    report.complaints.push_back(fmt::format("{} ids outside -1 .. {} (first: {}): is E = {} right?",
                                            report.out_of_range, experts - 1, first_bad, experts));
  if (report.duplicate_rows > kMaxDuplicateShare * static_cast<double>(report.rows))
    report.complaints.push_back(
        fmt::format("{} of {} rows name an expert twice, which no top-k does",
                    report.duplicate_rows, report.rows));
  if (raw.tokens >= kEnoughTokens) {
    if (report.equal_rows > (k == 1 ? kMaxEqualShareTop1 : kMaxEqualShare))
      report.complaints.push_back(
          fmt::format("{:.0f} % of rows equal the row before: a dummy batch, or the axes in "
                      "another order (--order)",
                      100 * report.equal_rows));
    // E = k leaves a router no choice, and then every row is the same.
    for (int layer = 0; layer < layers; ++layer)
      if (equal_in_layer[layer] == raw.tokens - 1 && k < experts)
        report.constant_layers.push_back(layer);
    if (!report.constant_layers.empty())
      report.complaints.push_back(
          fmt::format("every row is the same in layer rows {}", joined(report.constant_layers)));
    // A whole layer equal to another one: the layers of some records are copies made to fill the
    // model's depth.
    std::map<std::uint64_t, int> first_with;
    for (int layer = 0; layer < layers; ++layer) {
      std::uint64_t hash = 1469598103934665603ull;
      for (std::int64_t token = 0; token < raw.tokens; ++token)
        for (int j = 0; j < k; ++j)
          hash = (hash ^ static_cast<std::uint32_t>(
                             raw.ids[token * row_ids + static_cast<std::int64_t>(layer) * k + j])) *
                 1099511628211ull;
      if (!first_with.try_emplace(hash, layer).second) report.copied_layers.push_back(layer);
    }
    if (!report.copied_layers.empty() && k < experts && report.constant_layers.empty())
      report.complaints.push_back(
          fmt::format("layer rows {} are copies of earlier ones", joined(report.copied_layers)));
    if (report.highest_id >= 0 && report.highest_id < experts / 2 &&
        raw.tokens * k >= 100LL * experts)
      report.complaints.push_back(
          fmt::format("no id above {} although E = {}: is E right?", report.highest_id, experts));
  }
  if (!report.complaints.empty() && !force) {
    std::string text;
    for (const std::string& complaint : report.complaints) text += "\n  - " + complaint;
    throw Error("import refused:" + text, "", "routing as a router makes it",
                "mend the record, or import it with --force (bad ids become padding)");
  }
}

void cut_into_passes(RoutingTrace& trace, int pass_tokens) {
  if (pass_tokens == 0) return;
  if (pass_tokens < 1 || !trace.requests.empty() || !trace.pass_offsets.empty())
    throw Error("--pass-tokens", fmt::format("{}", pass_tokens),
                "a positive number, for a record without requests and passes",
                "leave it out: this record says itself where they begin");
  for (std::int64_t at = 0; at < trace.tokens(); at += pass_tokens)
    trace.pass_offsets.push_back(at);
  trace.pass_offsets.push_back(trace.tokens());
}

void thin_requests(RoutingTrace& trace, int requests_per_domain, ImportReport& report) {
  if (requests_per_domain <= 0) return;
  if (trace.requests.empty() || !trace.pass_offsets.empty())
    throw Error("--requests-per-domain", fmt::format("{}", requests_per_domain),
                "a record grouped by request, without passes", "import all of it");
  std::vector<std::vector<int>> of_domain(trace.domains.size());
  for (std::size_t r = 0; r < trace.requests.size(); ++r)
    of_domain[trace.requests[r].domain].push_back(static_cast<int>(r));
  std::vector<int> kept;
  for (const auto& requests : of_domain) {
    const std::size_t n = std::min<std::size_t>(requests.size(), requests_per_domain);
    for (std::size_t i = 0; i < n; ++i) kept.push_back(requests[i * requests.size() / n]);
  }
  std::sort(kept.begin(), kept.end());
  RoutingTrace thin;
  thin.info = trace.info;
  thin.domains = trace.domains;
  const std::int64_t row = trace.row_ids();
  for (const int r : kept) {
    TraceRequest request = trace.requests[r];
    for (int i = 0; i < request.tokens; ++i) {
      const auto from = trace.ids.begin() + trace.token_of(request, i) * row;
      thin.ids.insert(thin.ids.end(), from, from + row);
    }
    request.first = thin.tokens() - request.tokens;
    thin.requests.push_back(request);
  }
  report.dropped_requests = static_cast<std::int64_t>(trace.requests.size() - kept.size());
  report.dropped_tokens = trace.tokens() - thin.tokens();
  trace = std::move(thin);
}

TraceInfo complete_info(TraceInfo info, const ImportOptions& options, int layers, int k) {
  const TraceInfo& given = options.info;
  if (!given.model.empty()) info.model = given.model;
  const Model* model = find_model_or_null(info.model);
  if (given.experts != 0) info.experts = given.experts;
  if (info.experts == 0 && model) info.experts = model->shape.experts;
  if (info.experts == 0)
    throw Error("number of experts", "", "", "say it with --E, or name the model with --model");
  if (given.top_k != 0) info.top_k = given.top_k;
  if (info.top_k == 0) info.top_k = k;
  if (!given.layers.empty()) info.layers = given.layers;
  if (info.layers.empty()) {
    // Only counted: the model's MoE layers where the count is theirs, else rows from 0.
    const int first = model && model->moe_layers == layers ? model->first_moe_layer : 0;
    info.layers.resize(layers);
    std::iota(info.layers.begin(), info.layers.end(), first);
  }
  if (!given.source.empty()) info.source = given.source;
  if (!given.licence.empty()) info.licence = given.licence;
  if (!given.made.empty()) info.made = given.made;
  if (given.kind == TraceKind::kGenerated) {
    info.kind = given.kind;
    info.calibration = given.calibration;
    info.seed = given.seed;
  }
  if (options.is_phase_given) info.phase = given.phase;
  if (given.id_space == IdSpace::kPhysical) info.id_space = given.id_space;
  return info;
}

}  // namespace ramp
