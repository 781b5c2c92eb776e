// SPDX-License-Identifier: Apache-2.0
// `ramp bench layer`: the whole layer in a captured graph beside its floor, and with --forced all
// what being in a menu costs its entries.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/build.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "base/whole_file.hpp"
#include "cli/bench_session.hpp"
#include "cli/progress.hpp"
#include "cli/table.hpp"
#include "kernels/ffn/program.hpp"
#include "kernels/ffn/space.hpp"
#include "lab/bench_records.hpp"
#include "runtime/default_menu.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

void bench_forced(const BenchOptions& o, BenchSession& s, const std::vector<int>& tokens) {
  const std::vector<FfnConfig> menu =
      o.menu.empty() ? default_menu() : configs_of_labels("--menu", o.menu);
  require_legal_menu(menu);
  s.open(o.device);
  json rows = json::array();
  std::vector<double> ratios;
  Table table({"tokens", "<load", "<entry", "forced in the menu", "alone", "ratio"});
  for (const LoadSource& source : s.sources)
    for (const int t : tokens) {
      s.layers->set_load(source, t);
      for (const ForcedTimes& row : s.layers->forced(menu)) {
        ratios.push_back(row.forced_us / row.alone_us);
        table.add({std::to_string(t), source.name(), row.entry, us_text(row.forced_us),
                   us_text(row.alone_us), fmt::format("{:.3f}", ratios.back())});
        rows.push_back({{"model", s.model.name},
                        {"layout", s.layout.name()},
                        {"tokens", t},
                        {"load", source.name()},
                        {"entry", row.entry},
                        {"forced_us", row.forced_us},
                        {"alone_us", row.alone_us},
                        {"gpu", s.gpu->context.info().name},
                        {"commit", build_commit()},
                        {"date", today()}});
      }
    }
  fmt::print(
      "{}\nEach of {} entries forced in one polymorphic kernel over the same compiled alone: "
      "median {:.3f}, worst {:.3f}\n",
      table.text(), menu.size(), median(ratios), *std::max_element(ratios.begin(), ratios.end()));
  if (!o.json.empty()) write_whole_file(o.json, json{{"forced", rows}}.dump(1) + "\n");
}

void say_left_out(const WrongNumbers& wrong) { fmt::print(stderr, "left out: {}\n", wrong.what()); }

// The layer's times with the fastest entry of choice.menu.  Sums in bf16 are not the same twice, so
// an entry at the edge of what is allowed can be right when it is picked and wrong when it is
// timed: then the next one.
LayerTimes time_best(LayerBench& layers, BenchChoice choice) {
  for (;;) {
    const std::size_t fastest = layers.fastest(choice, say_left_out);
    try {
      return layers.layer({{choice.menu[fastest]}, {}, 0, choice.ordered, choice.prefill});
    } catch (const WrongNumbers& wrong) {
      if (choice.menu.size() == 1) throw;
      say_left_out(wrong);
      choice.menu.erase(choice.menu.begin() + static_cast<std::ptrdiff_t>(fastest));
    }
  }
}

BenchRecord record_of(const BenchSession& s, const BenchOptions& o, const BenchPolicy& policy,
                      const LoadSource& source, int tokens, const LayerTimes& t) {
  BenchRecord r;
  r.model = s.model.name;
  r.layout = s.layout.name();
  r.rank = o.rank;
  r.tokens = tokens;
  r.load = source.name();
  r.mode = policy.of(tokens).ordered ? "ordered" : "fast";
  r.policy = policy.name + (o.prefill >= 0 ? fmt::format(", prefill {}", o.prefill) : "");
  r.entry = t.entry;
  r.active_mb = t.active_mb;
  r.us = t.us;
  r.choice_us = t.us - t.ready_us;
  r.ffn_us = t.ffn_us;
  r.stream_us = t.stream_us;
  r.floor_us = t.floor_us;
  r.rel_err = t.rel_err;
  r.gpu = s.gpu->context.info().name;
  r.commit = build_commit();
  r.date = today();
  r.layers = t.layers;
  r.samples = t.timing.samples;
  r.dropped = t.timing.dropped;
  r.sm_mhz = t.timing.sm_mhz;
  r.spread = t.timing.spread.empty() ? 0 : t.timing.spread.front();
  r.throttle = t.timing.throttle;
  r.router = o.foreign_router ? "foreign" : "triggers early";
  r.routing = source.label();
  return r;
}

}  // namespace

void bench_layer(const BenchOptions& o) {
  BenchPolicy policy = policy_of(o);
  const std::vector<int> tokens = tokens_of(o);
  if (!o.forced.empty() && o.forced != "all")
    throw Error("--forced", o.forced, "all", "one entry alone is --policy forced:LABEL");
  BenchSession s(o, 32);
  if (!o.plan.empty()) take_plan(o, s, policy);
  if (!o.forced.empty()) return bench_forced(o, s, tokens);
  if (!policy.best) require_legal_menu(policy.choice.menu);
  s.open(o.device);
  if (!o.plan.empty()) take_plan(o, s, policy);  // now that the GPU is known

  Table table({"tokens", "<load", "<entry", "active MB", "us", "choice", "ffn", "stream", "floor",
               "us/stream", "error", "MHz", "<clock"});
  std::vector<BenchRecord> records;
  {
    Progress bar("timing");
    const double total = static_cast<double>(s.sources.size() * tokens.size());
    for (const LoadSource& source : s.sources)
      for (const int t : tokens) {
        s.layers->set_load(source, t);
        BenchChoice choice = policy.of(t);
        choice.prefill = o.prefill;
        const LayerTimes times =
            policy.best ? time_best(*s.layers, choice) : s.layers->layer(choice);
        records.push_back(record_of(s, o, policy, source, t, times));
        const BenchRecord& r = records.back();
        std::string clock = r.throttle;
        if (r.dropped > 0)
          clock += fmt::format(", {} of {} dropped", r.dropped, r.dropped + r.samples);
        table.add({std::to_string(t), r.load, r.entry, fmt::format("{:.1f}", r.active_mb),
                   us_text(r.us), us_text(r.choice_us), us_text(r.ffn_us), us_text(r.stream_us),
                   us_text(r.floor_us), fmt::format("{:.2f}", r.us / r.stream_us),
                   fmt::format("{:.4f}", r.rel_err), std::to_string(r.sm_mhz), clock});
        // Kept at once: whatever happens next costs no row.
        if (!o.json.empty() && o.json != "-") merge_into_file(o.json, {r});
        bar.update(static_cast<double>(records.size()), total);
      }
  }
  if (o.json == "-") {
    fmt::print("{}\n", merged("", "-", records).dump());
    return;
  }
  fmt::print("{} {}, {} GPU, policy {}, {}: us a layer, median of {} replays\n{}", s.model.name,
             s.layout.name(), o.rank, policy.name, s.gpu->context.info().name, o.replays,
             table.text());
}

}  // namespace ramp::cli
