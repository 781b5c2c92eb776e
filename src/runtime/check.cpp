// SPDX-License-Identifier: Apache-2.0
#include "runtime/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <numeric>

#include "kernels/ffn/space.hpp"
#include "problem/random.hpp"

namespace ramp {
namespace {

constexpr double kSeconds = 30;
constexpr int kReplays = 2;  // of a graph, over all its routings
constexpr int kTwoStreamRounds = 4;
constexpr int kRandomThetas = 12;  // choices of a menu that are compared with the host's

// Memory of one call that is repeated.
struct CallMemory {
  gpu::Buffer workspace, output;
};

CallMemory memory_of(const Layer& layer, int tokens) {
  return {gpu::Buffer(layer.workspace_bytes(tokens)),
          gpu::Buffer(static_cast<std::size_t>(tokens) * layer.options().shape.hidden * 2)};
}

LayerCall call_of(const CallMemory& memory, const DeviceBatch& batch, int tokens,
                  const gpu::Stream& stream) {
  LayerCall call;
  call.tokens = tokens;
  call.hidden = batch.hidden.ptr();
  call.ids = batch.ids.ptr();
  call.gates = batch.gates.ptr();
  call.output = memory.output.ptr();
  call.workspace = memory.workspace.ptr();
  call.workspace_bytes = memory.workspace.bytes();
  call.stream = stream;
  return call;
}

// Adds what an output is off by to the record of several.
void compare(const CheckCase& c, const gpu::Buffer& output, const std::string& where,
             CheckRecord& record) {
  auto out = output.values<std::uint16_t>();
  out.resize(c.want.size());
  const OutputError error = output_error(c.want, out);
  record.rel_err = std::max(record.rel_err, error.all);
  if (record.detail.empty() &&
      !(error.all <= record.tolerance && error.worst_piece <= kPieceTolerance))
    record.detail = fmt::format("{} after {}: error {:.4f}, of one piece {:.4f}", where, c.name,
                                error.all, error.worst_piece);
  record.ok = record.detail.empty();
}

class Checker {
 public:
  Checker(gpu::CubinCache& cache, const CheckOptions& options, const CheckEvents& events)
      : cache_(cache), options_(options), events_(events), bench_(load_bench(cache)) {}

  void run() {
    std::vector<std::vector<FfnConfig>> menus;
    if (options_.menus && !options_.small) menus = check_menus(options_.configs);
    compile(menus);
    std::vector<CheckSetting> settings;
    if (options_.own_settings) settings = check_settings(options_.small);
    for (const LocalShape& shape : options_.shapes) settings.push_back(setting_of(shape));
    total_ = static_cast<double>(options_.seeds) *
             static_cast<double>(options_.configs.size() + 4 * menus.size());
    for (int s = 0; s < options_.seeds; ++s) {
      const std::uint64_t seed = options_.first_seed + static_cast<std::uint64_t>(s);
      trials_.clear();
      ordered_.clear();
      for (std::size_t i = 0; i < settings.size(); ++i)
        trials_.push_back(make_trial(bench_, settings[i],
                                     i == 0 && !options_.small ? Cases::kEvery : Cases::kOrdinary,
                                     seed));
      for (const FfnConfig& c : options_.configs) {
        step(ffn_label(c), 1);
        check_config(c);
      }
      for (std::size_t m = 0; m < menus.size(); ++m) {
        step(menu_name(menus[m]), 4);
        check_menu(menus[m], seed);
      }
    }
  }

 private:
  static std::string menu_name(const std::vector<FfnConfig>& menu) {
    return fmt::format("menu of {} ({})", menu.size(), ffn_occupancy(menu[0]));
  }

  void step(const std::string& config, double weight) {
    config_ = config;
    if (events_.progress) events_.progress(done_, total_, config);
    done_ += weight;
  }

  void wait(const gpu::Stream& stream, const std::string& what) const {
    try {
      wait_for(stream, kSeconds, what);
    } catch (const Hung& hung) {
      if (events_.hung) events_.hung(hung);
      throw;
    }
  }

  void report(CheckRecord record) {
    record.config = config_;
    if (events_.record) events_.record(record);
  }

  // Everything at once, so that all cores are busy; what fails is met again below, one by one.
  void compile(const std::vector<std::vector<FfnConfig>>& menus) {
    std::vector<gpu::CompileRequest> requests{prepare_request()};
    for (const auto& menu : menus) requests.push_back(ffn_request(menu));  // the longest first
    for (const FfnConfig& c : options_.configs) requests.push_back(ffn_request({&c, 1}));
    cache_.get_all(requests, 0, [this](std::size_t done, std::size_t total, std::size_t) {
      if (events_.compiling) events_.compiling(done, total);
    });
  }

  // Null where it does not compile cleanly, which is reported.
  std::shared_ptr<const Kernels> load(const std::vector<FfnConfig>& menu) {
    try {
      return load_kernels(menu, cache_, true);
    } catch (const gpu::CudaError&) {
      throw;
    } catch (const Error& e) {
      report({.test = "compile", .ok = false, .detail = e.what()});
      return nullptr;
    }
  }

  void check_config(const FfnConfig& config) {
    const auto kernels = load({config});
    if (!kernels) return;
    for (const TrialSetting& trial : trials_) {
      // A layer so narrow that a block of the cluster would get nothing is refused, not run.
      const LocalShape& shape = trial.setting.shape;
      if (ffn_shape_refusal(config, shape.hidden, shape.intermediate)) continue;
      const Layer layer = trial_layer(kernels, trial, {Theta{}});
      for (std::size_t i = 0; i < trial.cases.size(); ++i)
        report(run_case(layer, trial, i, -1, stream_, nullptr, events_.hung));
      if (config.topology == kF3) check_row_a_pair(kernels, trial);
    }
    if (runs_ordered(config)) check_ordered(kernels, {0});
    if (options_.small) return;
    const Layer layer = trial_layer(kernels, trials_.front(), {Theta{}});
    report(check_graph(layer, trials_.front(), Router::kTriggers));
    report(check_graph(layer, trials_.front(), Router::kForeign));
    report(check_slots_graph(layer, trials_.front()));
    report(check_two_streams(layer, trials_.front()));
  }

  // Rows by pair instead of by token: numbers in `fast` mode; in `ordered` mode, below, bits.
  void check_row_a_pair(const std::shared_ptr<const Kernels>& kernels, const TrialSetting& trial) {
    const Layer layer = trial_layer(kernels, trial, {Theta{}}, false, true);
    for (std::size_t i = 0; i < trial.cases.size(); ++i) {
      if (!trial.cases[i].is_plain()) continue;
      CheckRecord record = run_case(layer, trial, i, -1, stream_, nullptr, events_.hung);
      record.test += "/row-a-pair";
      report(record);
    }
  }

  // `ordered` mode: every entry of the menu, each case, with the bits of whoever ran it first; then
  // a part of a batch, its tokens in reverse.
  void check_ordered(const std::shared_ptr<const Kernels>& kernels,
                     const std::vector<int>& entries) {
    const std::size_t menu = kernels->menu().size();
    for (const TrialSetting& trial : trials_) {
      const Layer layer = trial_layer(kernels, trial, std::vector<Theta>(menu), true);
      const Layer by_pair = trial_layer(kernels, trial, std::vector<Theta>(menu), true, true);
      for (const int entry : entries) {
        const std::string suffix =
            "/ordered" +
            (menu > 1 ? "-" + ffn_label(kernels->menu()[static_cast<std::size_t>(entry)]) : "");
        for (std::size_t i = 0; i < trial.cases.size(); ++i) {
          std::vector<std::uint16_t> bits;
          for (const Layer* runs : {&layer, &by_pair}) {
            if (runs == &by_pair && !trial.cases[i].is_plain()) continue;
            CheckRecord record = run_case(*runs, trial, i, entry, stream_, &bits, events_.hung);
            auto& [whose, first] = ordered_[record.test];
            if (whose.empty()) whose = config_, first = bits;
            if (record.ok && bits != first)
              record.ok = false, record.detail = "other bits than " + whose + " gave";
            record.test += suffix + (runs == &by_pair ? "/row-a-pair" : "");
            report(record);
          }
        }
        report(check_moved(layer, trial, entry, suffix));
      }
      if (options_.small || &trial != &trials_.front()) continue;
      report(check_graph(layer, trial, Router::kTriggers));
      report(check_slots_graph(layer, trial));
    }
  }

  // The last tokens of the largest batch alone, in reverse: their bits are those of the whole.
  CheckRecord check_moved(const Layer& layer, const TrialSetting& trial, int entry,
                          const std::string& suffix) {
    CheckRecord record;
    record.test = trial.setting.name + "/moved" + suffix;
    const CheckCase* whole = nullptr;
    for (const CheckCase& c : trial.cases)
      if (c.is_plain() && (!whole || c.batch.tokens > whole->batch.tokens)) whole = &c;
    if (!whole || whole->batch.tokens < 2) return record;
    const auto k = static_cast<std::size_t>(trial.setting.shape.top_k),
               d = static_cast<std::size_t>(trial.setting.shape.hidden);
    std::vector<int> moved;  // where the part's tokens stand in the whole
    for (int t = 0; t < whole->batch.tokens / 2; ++t) moved.push_back(whole->batch.tokens - 1 - t);
    HostBatch part;
    part.tokens = static_cast<int>(moved.size());
    part.hidden = rows_of(whole->batch.hidden, moved, d);
    part.ids = rows_of(whole->batch.ids, moved, k);
    if (!whole->batch.gates.empty()) part.gates = rows_of(whole->batch.gates, moved, k);
    const DeviceBatch batch = upload(part);
    CallMemory memory = memory_of(layer, part.tokens);
    memory.output.fill(0xff);
    layer.init_workspace(memory.workspace.ptr(), stream_);
    LayerCall call = call_of(memory, batch, part.tokens, stream_);
    call.forced = entry;
    layer.forward(call);
    wait(stream_, config_ + ": a part of a batch");
    auto out = memory.output.values<std::uint16_t>();
    out.resize(moved.size() * d);
    record.ok =
        out == rows_of(ordered_.at(trial.setting.name + "/" + whole->name).second, moved, d);
    if (!record.ok) record.detail = "a token has other bits than in its batch";
    return record;
  }

  // One captured graph, two layers deep on one workspace, a kernel that writes the ids before each,
  // replayed with other routing each time; in `ordered` mode it has the eager bits.
  CheckRecord check_graph(const Layer& layer, const TrialSetting& trial, Router router) {
    CheckRecord record;
    const bool ordered = layer.options().ordered;
    record.test = trial.setting.name +
                  (router == Router::kTriggers ? "/graph" : "/graph-foreign-router") +
                  (ordered ? "/ordered" : "");
    std::vector<std::size_t> same;  // cases of one size: what one graph can be replayed on
    for (std::size_t i = 0; i < trial.cases.size(); ++i)
      if (trial.cases[i].batch.tokens == kGraphTokens && trial.cases[i].is_plain())
        same.push_back(i);
    if (same.size() < 2) return record;
    record.tolerance = tolerance_of(layer, trial, same);

    const std::size_t rows_bytes = trial.batches[same[0]].hidden.bytes();
    const std::size_t ids_bytes = trial.batches[same[0]].ids.bytes();
    struct Place {
      DeviceBatch batch;
      gpu::Buffer routed;  // what the router will write
      CallMemory memory;
    };
    std::vector<Place> places;
    for (int i = 0; i < 2; ++i) {
      places.push_back({{gpu::Buffer(rows_bytes), gpu::Buffer(ids_bytes), gpu::Buffer(ids_bytes)},
                        gpu::Buffer(ids_bytes),
                        memory_of(layer, kGraphTokens)});
      places.back().batch.ids.fill(0xff);
    }
    const gpu::Buffer& workspace = places[0].memory.workspace;
    layer.init_workspace(workspace.ptr(), stream_);
    const gpu::Graph graph = gpu::Graph::capture(stream_, [&] {
      for (Place& place : places) {
        bench_.write_ids(router, place.batch.ids.ptr(), place.routed.ptr(),
                         static_cast<int>(ids_bytes / sizeof(int)), stream_);
        LayerCall call = call_of(place.memory, place.batch, kGraphTokens, stream_);
        call.workspace = workspace.ptr();
        layer.forward(call);
      }
    });
    for (std::size_t r = 0; r < kReplays * same.size(); ++r) {
      const std::size_t which[2] = {same[r % same.size()],
                                    same[(r + 1 + r / same.size()) % same.size()]};
      for (int i = 0; i < 2; ++i) {
        const HostBatch& b = trial.cases[which[i]].batch;
        places[i].batch.hidden.upload(b.hidden.data(), rows_bytes);
        places[i].batch.gates.upload(b.gates.data(), ids_bytes);
        places[i].routed.upload(b.ids.data(), ids_bytes);
        places[i].memory.output.fill(0xff);
      }
      graph.launch(stream_);
      wait(stream_, config_ + ": a replay");
      for (int i = 0; i < 2; ++i) {
        const CheckCase& c = trial.cases[which[i]];
        compare(c, places[i].memory.output, fmt::format("replay {}", r), record);
        if (ordered && record.ok &&
            places[i].memory.output.values<std::uint16_t>() !=
                ordered_.at(trial.setting.name + "/" + c.name).second) {
          record.ok = false;
          record.detail = fmt::format("replay {} has other bits than the call of {}", r, c.name);
        }
      }
    }
    return record;
  }

  // One captured layer over e4m3 rows in slots, replayed with other rows, scales and counts.
  CheckRecord check_slots_graph(const Layer& layer, const TrialSetting& trial) {
    CheckRecord record;
    const bool ordered = layer.options().ordered;
    record.test = trial.setting.name + "/graph-slots" + (ordered ? "/ordered" : "");
    std::vector<std::size_t> same;
    for (std::size_t i = 0; i < trial.cases.size(); ++i) {
      const CheckCase& c = trial.cases[i];
      if (c.slots > 0 && c.scale_strides.row == 1 &&
          (same.empty() || c.batch.tokens == trial.cases[same[0]].batch.tokens))
        same.push_back(i);
    }
    if (same.size() < 2) return record;
    record.tolerance = tolerance_of(layer, trial, same);
    const CheckCase& first = trial.cases[same[0]];
    gpu::Buffer rows(first.batch.hidden_q.size()), scales(first.scales.size() * 4),
        counts(first.ready_counts.size() * 4), gates(first.batch.gates.size() * 4),
        output(first.want.size() * 2);
    LayerCall call;
    call.tokens = first.batch.tokens;
    call.slots = first.slots;
    call.hidden = rows.ptr();
    call.hidden_scales = scales.ptr();
    call.scale_strides = first.scale_strides;
    call.ready_counts = counts.ptr();
    call.gates = gates.ptr();
    call.output = output.ptr();
    call.stream = stream_;
    gpu::Buffer workspace(layer.workspace_bytes(call));
    call.workspace = workspace.ptr();
    call.workspace_bytes = workspace.bytes();
    workspace.fill(0xff);
    layer.init_workspace(workspace.ptr(), stream_);
    const gpu::Graph graph = gpu::Graph::capture(stream_, [&] { layer.forward(call); });
    for (std::size_t r = 0; r < kReplays * same.size(); ++r) {
      const CheckCase& c = trial.cases[same[r % same.size()]];
      rows.upload(c.batch.hidden_q.data(), rows.bytes());
      scales.upload(c.scales.data(), scales.bytes());
      counts.upload(c.ready_counts.data(), counts.bytes());
      gates.upload(c.batch.gates.data(), gates.bytes());
      output.fill(0xff);
      graph.launch(stream_);
      wait(stream_, config_ + ": a replay");
      compare(c, output, fmt::format("replay {}", r), record);
      if (ordered && record.ok &&
          output.values<std::uint16_t>() != ordered_.at(trial.setting.name + "/" + c.name).second) {
        record.ok = false;
        record.detail = fmt::format("replay {} has other bits than the call of {}", r, c.name);
      }
    }
    return record;
  }

  // Two streams, each with its own workspace and batch, several calls in flight.
  CheckRecord check_two_streams(const Layer& layer, const TrialSetting& trial) {
    CheckRecord record;
    record.test = trial.setting.name + "/two-streams";
    std::vector<std::size_t> largest;
    for (std::size_t i = 0; i < trial.cases.size(); ++i)
      if (trial.cases[i].is_plain() && trial.cases[i].batch.tokens > 0) largest.push_back(i);
    std::stable_sort(largest.begin(), largest.end(), [&](std::size_t a, std::size_t b) {
      return trial.cases[a].batch.tokens > trial.cases[b].batch.tokens;
    });
    if (largest.size() < 2) return record;
    const std::size_t which[2] = {largest[0], largest[1]};
    record.tolerance = tolerance_of(layer, trial, {which[0], which[1]});
    const gpu::Stream streams[2];
    CallMemory memory[2];
    for (int i = 0; i < 2; ++i) {
      memory[i] = memory_of(layer, trial.cases[which[i]].batch.tokens);
      memory[i].output.fill(0xff);
      layer.init_workspace(memory[i].workspace.ptr(), streams[i]);
    }
    for (int round = 0; round < kTwoStreamRounds; ++round)
      for (int i = 0; i < 2; ++i)
        layer.forward(call_of(memory[i], trial.batches[which[i]],
                              trial.cases[which[i]].batch.tokens, streams[i]));
    for (int i = 0; i < 2; ++i) {
      wait(streams[i], config_ + ": two streams");
      compare(trial.cases[which[i]], memory[i].output, "two streams at once", record);
    }
    return record;
  }

  // Every entry forced, then chosen: with thetas of which the host's twin knows the winner.
  void check_menu(const std::vector<FfnConfig>& menu, std::uint64_t seed) {
    const auto kernels = load(menu);
    if (!kernels) return;
    const TrialSetting& trial = trials_.front();
    const Layer layer = trial_layer(kernels, trial, std::vector<Theta>(menu.size()));
    for (std::size_t entry = 0; entry < menu.size(); ++entry)
      for (std::size_t i = 0; i < trial.cases.size(); ++i) {
        CheckRecord record =
            run_case(layer, trial, i, static_cast<int>(entry), stream_, nullptr, events_.hung);
        record.test += fmt::format("/forced-{}", ffn_label(menu[entry]));
        report(record);
      }
    Random random(seed, 402);
    for (int t = 0; t < kRandomThetas; ++t) {
      std::vector<Theta> thetas;
      for (std::size_t e = 0; e < menu.size(); ++e) {
        // Every other draw leaves ties for the lower index to win.
        const auto draw = [&](float scale) {
          return t % 2 ? scale * static_cast<float>(random.below(3))
                       : scale * random.uniform_float();
        };
        thetas.push_back({draw(3.0f), draw(2.0f), draw(0.05f), draw(0.2f)});
      }
      const Layer choosing = trial_layer(kernels, trial, thetas);
      for (std::size_t i = 0; i < trial.cases.size(); ++i) {
        CheckRecord record = run_case(choosing, trial, i, -1, stream_, nullptr, events_.hung);
        record.test += fmt::format("/choice-{}", t);
        report(record);
      }
    }
    report(check_graph(layer, trial, Router::kTriggers));
    if (runs_ordered(menu[0])) {
      std::vector<int> entries(menu.size());
      std::iota(entries.begin(), entries.end(), 0);
      check_ordered(kernels, entries);
    }
  }

  static double tolerance_of(const Layer& layer, const TrialSetting& trial,
                             const std::vector<std::size_t>& cases) {
    double adds = 0;
    for (const std::size_t i : cases)
      for (const FfnConfig& c : layer.options().menu)
        adds = std::max(
            adds, output_adds(c, trial.setting.shape.intermediate, trial.cases[i].most_pairs));
    return fast_tolerance(adds, trial.setting.shape.intermediate);  // a row is the least there is
  }

  static constexpr int kGraphTokens = 64;

  gpu::CubinCache& cache_;
  const CheckOptions& options_;
  const CheckEvents& events_;
  BenchProgram bench_;
  gpu::Stream stream_;
  std::vector<TrialSetting> trials_;
  // By setting and case: the bits of `ordered` mode, and who gave them.
  std::map<std::string, std::pair<std::string, std::vector<std::uint16_t>>> ordered_;
  std::string config_;
  double done_ = 0, total_ = 1;
};

}  // namespace

BenchProgram load_bench(gpu::CubinCache& cache) { return BenchProgram(cache.get(bench_request())); }

TrialSetting make_trial(const BenchProgram& bench, const CheckSetting& setting, Cases which,
                        std::uint64_t seed, int threads) {
  TrialSetting trial{setting, random_weights(bench, setting.shape, seed, nullptr), {}, {}, {}, {}};
  const HostWeights weights = download(trial.weights);
  trial.cases = check_cases(setting, which, seed);
  for (CheckCase& c : trial.cases) {
    answer(setting, weights, c, threads);
    trial.batches.push_back(upload(c.batch));
    trial.counts.push_back(gpu::Buffer::of(c.ready_counts));
    trial.scales.push_back(gpu::Buffer::of(c.scales));
  }
  return trial;
}

std::vector<std::vector<FfnConfig>> check_menus(const std::vector<FfnConfig>& configs) {
  std::vector<std::vector<FfnConfig>> menus;
  for (const FfnConfig& c : configs) {
    auto menu = std::find_if(menus.begin(), menus.end(), [&](const std::vector<FfnConfig>& m) {
      return ffn_occupancy(m[0]) == ffn_occupancy(c);
    });
    if (menu == menus.end()) menu = menus.insert(menus.end(), std::vector<FfnConfig>{});
    const bool has_height = std::any_of(menu->begin(), menu->end(),
                                        [&](const FfnConfig& m) { return m.rows == c.rows; });
    if (!has_height && menu->size() < kMaxMenu) menu->push_back(c);
  }
  std::erase_if(menus, [](const std::vector<FfnConfig>& m) { return m.size() < 2; });
  return menus;
}

void run_check(const gpu::Context& context, gpu::CubinCache& cache, const CheckOptions& options,
               const CheckEvents& events) {
  if (!context.info().runs_sm_90a())
    throw Error("GPU",
                fmt::format("{} (compute capability {}.{})", context.info().name,
                            context.info().cc_major, context.info().cc_minor),
                "compute capability 9.0", "`ramp doctor` lists the GPUs of this machine");
  context.make_current();
  Checker(cache, options, events).run();
}

}  // namespace ramp
