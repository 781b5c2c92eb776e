// SPDX-License-Identifier: Apache-2.0
#include "runtime/soak.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "choice/select.hpp"
#include "kernels/ffn/space.hpp"
#include "kernels/numeric.h"
#include "problem/catalog.hpp"
#include "runtime/default_menu.hpp"
#include "runtime/layer_by_size.hpp"
#include "runtime/soak_loads.hpp"

namespace ramp {
namespace {

constexpr double kSeconds = 10;    // a replay takes a millisecond
constexpr int kMostFailures = 20;  // of a layer that are reported one by one

std::size_t size_of(long long n) { return static_cast<std::size_t>(n); }

// What a replay left on the host, until it is compared.
struct Outcome {
  int number = 0, size = 0;
  SoakLoad load;
  std::vector<int> counts;          // of its local experts
  gpu::PinnedBuffer output, eager;  // [tokens, d] bf16
  int entry = 0, rows = 0;

  Outcome(std::size_t bytes, bool ordered) : output(bytes), eager(ordered ? bytes : 1) {}
};

class Soak {
 public:
  Soak(const gpu::Context& context, gpu::CubinCache& cache, const BenchProgram& bench,
       const SoakLayer& what, const SoakOptions& options, const CheckEvents& events)
      : bench_(bench),
        what_(what),
        options_(options),
        events_(events),
        shape_(what.setting.shape),
        map_(full_map(what.setting)),
        sms_(context.info().sms),
        pool_(soak_pool(shape_)),
        sizes_(soak_sizes(what.setting)),
        weights_(random_weights(bench, shape_, options.seed, nullptr)),
        rows_(random_rows(pool_, shape_.hidden, options.seed)) {
    for (const SizedOptions& sized : what.sizes) {
      const auto kernels = load_kernels(context, sized.options.menu, cache, true);
      layers_.add(sized.up_to, Layer(kernels, sized.options, weights_.view()));
    }
    ordered_ = layers_.largest().options().ordered;
  }

  // done, total: of all layers.
  void run(int done, int total) {
    say(done, total, fmt::format("{}: tables", what_.name));
    if (!make_tables()) return;
    capture();
    for (int i = 0; i < 2; ++i) outcomes_.emplace_back(most_bytes(), ordered_);
    for (int r = 0; r < options_.replays; ++r) {
      Outcome& outcome = outcomes_[size_of(r % 2)];
      outcome.number = r;
      outcome.size = soak_size_of(static_cast<int>(sizes_.size()), options_.seed, r);
      outcome.load =
          draw_soak_load(what_.setting, sizes_[size_of(outcome.size)].tokens, options_.seed, r);
      outcome.counts = soak_counts(outcome.load, map_, shape_.experts);
      say(done + r, total, text_of(outcome));
      replay(outcome);
      // The one before is compared while this one runs.
      if (compared_.valid()) compared_.get();
      compared_ = std::async(std::launch::async, [this, &outcome] { compare(outcome); });
    }
    if (compared_.valid()) compared_.get();
    for (auto& [test, record] : summary_) {
      record.first.test = fmt::format("{} x{}", test, record.second);
      report(record.first);
    }
  }

 private:
  void say(int done, int total, const std::string& what) const {
    if (events_.progress) events_.progress(done, total, what);
  }

  void report(const CheckRecord& record) const {
    if (events_.record) events_.record(record);
  }

  void wait(const std::string& what) {
    try {
      wait_for(stream_, kSeconds, what);
    } catch (const Hung& hung) {
      if (compared_.valid()) compared_.wait();  // it reports as well
      if (events_.hung) events_.hung(hung);
      throw;
    }
  }

  // Captured once for each size and kind of router.
  struct Place {
    gpu::Buffer hidden, scales, routing, routed, gates, output, workspace;
    gpu::Buffer eager_output, eager_workspace;  // of the eager call, in `ordered` mode
    std::vector<gpu::Graph> graphs;
  };

  std::size_t bytes_of(const SoakSize& size) const {
    return size_of(size.rows(shape_)) * size_of(shape_.hidden) * 2;
  }
  std::size_t most_bytes() const {
    std::size_t most = 0;
    for (const SoakSize& size : sizes_) most = std::max(most, bytes_of(size));
    return most;
  }
  std::string name_of(const SoakSize& size) const {
    return size.slots > 0 ? fmt::format("{} slots", size.slots)
                          : fmt::format("{} tokens", size.tokens);
  }

  std::string text_of(const Outcome& o) const {
    return fmt::format("{}: seed {}, replay {} ({}: {})", what_.name, options_.seed, o.number,
                       name_of(sizes_[size_of(o.size)]), o.load.name());
  }

  // Row t of `tokens` is row t % pool of the pool.
  std::vector<std::uint16_t> tiled_rows(int tokens) const {
    std::vector<int> rows;
    for (int t = 0; t < tokens; ++t) rows.push_back(t % pool_);
    return rows_of(rows_, rows, size_of(shape_.hidden));
  }

  // Every entry of every menu gives each row of the pool by each expert, in eager calls of one
  // expert each that are compared with the reference.
  bool make_tables() {
    const HostWeights weights = download(weights_);
    LocalShape one_pair = shape_;
    one_pair.top_k = 1;
    std::vector<int> identity(size_of(shape_.experts));
    for (int e = 0; e < shape_.experts; ++e) identity[size_of(e)] = e;
    std::vector<std::vector<double>> want;
    for (int e = 0; e < shape_.experts; ++e) {
      HostBatch batch{pool_, rows_, std::vector<int>(size_of(pool_), e),
                      std::vector<float>(size_of(pool_), 1.0f), identity};
      want.push_back(reference_on_threads(one_pair, weights, batch));
    }
    bool right = true;
    layers_.for_each([&](int up_to, const Layer& layer) {
      const auto entries = static_cast<int>(layer.options().menu.size());
      for (int entry = 0; entry < entries; ++entry)
        right = make_table(layer, up_to, entry, want) && right;
    });
    return right;
  }

  bool make_table(const Layer& layer, int up_to, int entry,
                  const std::vector<std::vector<double>>& want) {
    const FfnConfig& config = layer.options().menu[size_of(entry)];
    SoakTable& table =
        tables_[&layer].emplace_back(SoakTable{pool_, shape_.experts, shape_.hidden, {}});
    CheckRecord record;
    record.config = what_.name;
    record.test = fmt::format("tables/{}{}", ffn_label(config),
                              up_to ? fmt::format(" (up to {})", up_to) : "");
    record.tolerance = fast_tolerance(output_adds(config, shape_.intermediate, 1),
                                      1.0 * pool_ * shape_.intermediate);
    const gpu::Buffer hidden = gpu::Buffer::of(rows_);
    gpu::Buffer output(rows_.size() * 2), workspace(layer.workspace_bytes(pool_));
    layer.init_workspace(workspace.ptr(), stream_);
    for (int e = 0; e < shape_.experts; ++e) {
      std::vector<int> ids(size_of(pool_) * size_of(shape_.top_k), -1);
      for (int t = 0; t < pool_; ++t) ids[size_of(t) * size_of(shape_.top_k)] = id_of(e);
      const gpu::Buffer on_device = gpu::Buffer::of(ids);
      output.fill(0xff);
      LayerCall call;
      call.tokens = pool_;
      call.hidden = hidden.ptr();
      call.ids = on_device.ptr();
      call.output = output.ptr();
      call.workspace = workspace.ptr();
      call.workspace_bytes = workspace.bytes();
      call.stream = stream_;
      call.forced = entry;
      layer.forward(call);
      wait(fmt::format("{}, {}", what_.name, record.test));
      const auto rows = output.values<std::uint16_t>();
      const OutputError error = output_error(want[size_of(e)], rows);
      record.rel_err = std::max(record.rel_err, error.all);
      if (record.ok && !(error.all <= record.tolerance && error.worst_piece <= kPieceTolerance))
        record.ok = false,
        record.detail = fmt::format("expert {}: error {:.4f}, of one piece {:.4f}", e, error.all,
                                    error.worst_piece);
      table.rows.insert(table.rows.end(), rows.begin(), rows.end());
    }
    report(record);
    return record.ok;
  }

  int id_of(int local) const {
    return static_cast<int>(std::find(map_.begin(), map_.end(), local) - map_.begin());
  }

  // routing: ids or counts.
  LayerCall call_of(const Place& place, const SoakSize& size, const gpu::Buffer& routing) const {
    LayerCall call;
    call.tokens = size.rows(shape_);
    call.hidden = place.hidden.ptr();
    call.output = place.output.ptr();
    call.workspace = place.workspace.ptr();
    call.workspace_bytes = place.workspace.bytes();
    call.stream = stream_;
    if (size.slots > 0) {
      call.ready_counts = routing.ptr();
      call.slots = size.slots;
      call.hidden_scales = place.scales.ptr();
      call.scale_strides = {1LL * size.slots * shape_.hidden / kScaleGroup, 1, size.slots};
    } else {
      call.ids = routing.ptr();
      call.gates = place.gates.ptr();
    }
    return call;
  }

  const Layer& layer_of(const SoakSize& size) const { return layers_.of(size.rows(shape_)); }

  // The pool as a sender quantises it, place s of each expert its row s % pool, and scales column
  // by column.
  void fill_slots(Place& place, int slots) const {
    const std::size_t d = size_of(shape_.hidden), groups = d / kScaleGroup;
    std::vector<std::uint8_t> codes(rows_.size());
    std::vector<float> scales(rows_.size() / kScaleGroup);
    for (std::size_t g = 0; g < scales.size(); ++g) {
      float amax = 0;
      for (std::size_t i = g * kScaleGroup; i < (g + 1) * kScaleGroup; ++i)
        amax = std::fmax(amax, std::fabs(from_bf16(rows_[i])));
      scales[g] = group_scale(amax);
      for (std::size_t i = g * kScaleGroup; i < (g + 1) * kScaleGroup; ++i)
        codes[i] = to_e4m3(quantise_divide(from_bf16(rows_[i]), scales[g]));
    }
    std::vector<int> rows;
    std::vector<float> by_column;
    for (int e = 0; e < shape_.experts; ++e) {
      for (int s = 0; s < slots; ++s) rows.push_back(s % pool_);
      for (std::size_t g = 0; g < groups; ++g)
        for (int s = 0; s < slots; ++s)
          by_column.push_back(scales[size_of(s % pool_) * groups + g]);
    }
    place.hidden = gpu::Buffer::of(rows_of(codes, rows, d));
    place.scales = gpu::Buffer::of(by_column);
  }

  void capture() {
    for (const SoakSize& size : sizes_) {
      const Layer& layer = layer_of(size);
      const std::size_t pairs = size_of(size.tokens) * size_of(shape_.top_k),
                        words = size.slots > 0 ? size_of(shape_.experts) : pairs;
      Place& p = places_.emplace_back();
      p.routing = gpu::Buffer(words * 4), p.routed = gpu::Buffer(words * 4);
      if (size.slots > 0) {
        fill_slots(p, size.slots);
      } else {
        p.hidden = gpu::Buffer::of(tiled_rows(size.tokens));
        p.gates = gpu::Buffer(pairs * 4);
      }
      p.output = gpu::Buffer(bytes_of(size));
      p.workspace = gpu::Buffer(layer.workspace_bytes(call_of(p, size, p.routing)));
      p.routing.fill(0xff);
      layer.init_workspace(p.workspace.ptr(), stream_);
      if (ordered_) {
        p.eager_output = gpu::Buffer(bytes_of(size));
        p.eager_workspace = gpu::Buffer(p.workspace.bytes());
        layer.init_workspace(p.eager_workspace.ptr(), stream_);
      }
      for (const Router router : {Router::kTriggers, Router::kForeign})
        p.graphs.push_back(gpu::Graph::capture(stream_, [&] {
          bench_.write_ids(router, p.routing.ptr(), p.routed.ptr(), static_cast<int>(words),
                           stream_);
          layer.forward(call_of(p, size, p.routing));
        }));
    }
  }

  void replay(Outcome& o) {
    Place& p = places_[size_of(o.size)];
    const SoakSize& size = sizes_[size_of(o.size)];
    const Layer& layer = layer_of(size);
    const std::size_t bytes = p.output.bytes();
    p.routed.upload(size.slots > 0 ? o.counts.data() : o.load.ids.data(), p.routed.bytes());
    if (size.slots == 0) p.gates.upload(o.load.gates.data(), p.gates.bytes());
    p.output.fill_async(0xff, stream_);
    // Ids or counts are written on the device, in the graph.
    p.graphs[size_of(o.number % 2)].launch(stream_);
    p.output.download_async(o.output.data(), bytes, 0, stream_);
    if (ordered_) {  // through another entry, or the other bits would prove little
      LayerCall call = call_of(p, size, p.routed);
      call.output = p.eager_output.ptr();
      call.workspace = p.eager_workspace.ptr();
      call.forced = o.number % static_cast<int>(layer.options().menu.size());
      p.eager_output.fill_async(0xff, stream_);
      layer.forward(call);
      p.eager_output.download_async(o.eager.data(), bytes, 0, stream_);
    }
    wait(text_of(o));
    const LayerCounters counters = layer.counters(p.workspace.ptr(), stream_);
    o.entry = counters.last_entry, o.rows = counters.last_rows;
  }

  // Empty, or what is wrong; error and tolerance go into the record.
  std::string difference(const Outcome& o, CheckRecord& record) const {
    const SoakSize& size = sizes_[size_of(o.size)];
    const Layer& layer = layer_of(size);
    const LayerOptions& options = layer.options();
    std::vector<MenuEntry> menu;
    for (std::size_t i = 0; i < options.menu.size(); ++i)
      menu.push_back(
          {ffn_grid(options.menu[i], shape_.hidden, shape_.intermediate, sms_), options.theta[i]});
    std::vector<int> load = o.counts;
    if (size.slots > 0)
      for (int& n : load) n = std::min(n, size.slots);
    const int rows = std::accumulate(load.begin(), load.end(), 0);
    const int entry = select(std::span<const int>(load), menu).entry;
    if (o.rows != rows) return fmt::format("{} rows where there are {}", o.rows, rows);
    if (o.entry != entry)
      return fmt::format("entry {} ran where the host's twin takes {}", o.entry, entry);
    const FfnConfig& config = options.menu[size_of(o.entry)];
    const int pairs = size.slots > 0 ? 1 : std::max(1, most_local_pairs(o.load, map_));
    // Both sides of the comparison are sums in bf16.
    record.tolerance = fast_tolerance(2 * output_adds(config, shape_.intermediate, pairs),
                                      1.0 * std::max(1, rows) * shape_.intermediate);
    const SoakTable& table = tables_.at(&layer)[size_of(o.entry)];
    const auto* output = o.output.as<std::uint16_t>();
    const OutputError error = size.slots > 0
                                  ? soak_slots_error(table, load, size.slots, output, 0xffff)
                                  : soak_error(table, o.load, map_, output);
    record.rel_err = error.all;
    if (!(error.all <= record.tolerance && error.worst_piece <= kPieceTolerance))
      return fmt::format("error {:.4f}, of one piece {:.4f}", error.all, error.worst_piece);
    if (ordered_ && std::memcmp(output, o.eager.data(), bytes_of(size)) != 0)
      return fmt::format("other bits than the eager call of entry {}",
                         o.number % static_cast<int>(options.menu.size()));
    return "";
  }

  // One at a time, on a thread beside the one that replays.
  void compare(const Outcome& o) {
    CheckRecord now;
    now.config = what_.name;
    now.detail = difference(o, now);
    now.ok = now.detail.empty();
    auto& [all, replays] = summary_[fmt::format("{}/{}", name_of(sizes_[size_of(o.size)]),
                                                soak_kind_name(o.load.kind))];
    ++replays;
    all.config = now.config;
    if (now.tolerance > 0 && now.rel_err * all.tolerance >= all.rel_err * now.tolerance)
      all.rel_err = now.rel_err, all.tolerance = now.tolerance;
    if (now.ok) return;
    now.detail = fmt::format("{}: {}", text_of(o), now.detail);
    if (all.ok) all.ok = false, all.detail = now.detail;
    now.test = fmt::format("replay {}", o.number);
    if (++failures_ <= kMostFailures) report(now);
  }

  const BenchProgram& bench_;
  const SoakLayer& what_;
  const SoakOptions& options_;
  const CheckEvents& events_;
  LocalShape shape_;
  std::vector<int> map_;
  int sms_ = 0, pool_ = 0;
  std::vector<SoakSize> sizes_;
  TrialWeights weights_;
  std::vector<std::uint16_t> rows_;  // the pool
  gpu::Stream stream_;
  LayerBySize layers_;
  bool ordered_ = false;
  std::map<const Layer*, std::vector<SoakTable>> tables_;  // one an entry
  std::vector<Place> places_;                              // one a size
  // By size and kind: the worst replay, and how many there were.
  std::map<std::string, std::pair<CheckRecord, int>> summary_;
  int failures_ = 0;
  std::vector<Outcome> outcomes_;  // in turns
  std::future<void> compared_;     // the last but one: gone before what it reads
};

LayerOptions options_of(const CheckSetting& setting) {
  LayerOptions options;
  options.shape = setting.shape;
  options.experts = setting.experts;
  options.first_expert = setting.first_expert;
  options.expert_map = setting.expert_map;
  return options;
}

}  // namespace

CheckSetting soak_setting() { return soak_setting({16, 4, 1024, 512}); }

CheckSetting soak_setting(const LocalShape& shape) {
  CheckSetting setting{"soak", shape, std::max(2 * shape.experts, shape.top_k), 0, {}};
  setting.first_expert = shape.experts / 2;
  return setting;
}

std::vector<SoakLayer> default_soak(const gpu::DeviceInfo& device, const CheckSetting& setting) {
  const GpuSpec& spec = gpu_like(device.name);
  const LayerOptions fast = with_default_menu(options_of(setting), spec);
  LayerOptions ordered = fast;
  std::vector<FfnConfig> phased = ffn_space();
  std::erase_if(phased, [](const FfnConfig& c) { return !runs_ordered(c); });
  for (const std::vector<FfnConfig>& menu : check_menus(phased))
    if (!ordered.ordered) ordered.menu = menu, ordered.ordered = true;
  ordered.theta.clear();
  for (const FfnConfig& c : ordered.menu)
    ordered.theta.push_back(planned_theta(c, setting.shape, spec));
  std::vector<SoakLayer> layers{{"soak, default menu", setting, {{0, fast}}}};
  if (ordered.ordered) layers.push_back({"soak, ordered", setting, {{0, ordered}}});
  return layers;
}

SoakLayer plan_soak(const Plan& plan, const gpu::DeviceInfo& device) {
  const CheckSetting setting = soak_setting(plan.shape);
  PlanUse use;
  use.experts = setting.experts;
  use.first_expert = setting.first_expert;
  use.device = device;
  return {"soak, " + plan.identity, setting, all_options_from_plan(plan, use)};
}

void run_soak(const gpu::Context& context, gpu::CubinCache& cache,
              const std::vector<SoakLayer>& layers, const SoakOptions& options,
              const CheckEvents& events) {
  context.make_current();
  std::vector<gpu::CompileRequest> requests{prepare_request(), bench_request()};
  for (const SoakLayer& layer : layers)
    for (const SizedOptions& sized : layer.sizes)
      requests.push_back(ffn_request(sized.options.menu));
  cache.get_all(requests, 0, [&](std::size_t done, std::size_t total, std::size_t) {
    if (events.compiling) events.compiling(done, total);
  });
  const BenchProgram bench = load_bench(cache);
  const int total = options.replays * static_cast<int>(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i)
    Soak(context, cache, bench, layers[i], options, events)
        .run(static_cast<int>(i) * options.replays, total);
}

}  // namespace ramp
