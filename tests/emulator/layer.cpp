// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/layer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>

#include "kernels/ffn/program.hpp"
#include "kernels/ffn/weight_maps.hpp"
#include "kernels/prepare/workspace.hpp"
#include "problem/random.hpp"
#include "runtime/layer_arguments.hpp"

namespace ramp::emulator {
namespace {

// What the emulated copy engine expects under a map's address: where its description is.
struct alignas(64) EmulatedMap {
  const gpu::TensorMapSpec* spec;
};

}  // namespace

std::vector<PassResult> run_passes(const LayerSetup& setup, const std::vector<Pass>& passes,
                                   std::uint64_t seed) {
  const LocalShape& shape = setup.setting.shape;
  const std::vector<FfnConfig>& menu = setup.menu->configs;
  const auto address = [](const void* p) { return reinterpret_cast<std::uint64_t>(p); };
  const gpu::TensorMapSpec w13 = w13_map_spec(shape, address(setup.weights->w13.data()), menu[0]);
  const gpu::TensorMapSpec w2 = w2_map_spec(shape, address(setup.weights->w2.data()), menu[0]);
  gpu::validate(w13, "w13");
  gpu::validate(w2, "w2");
  const EmulatedMap map13{&w13}, map2{&w2};

  int most_tokens = 1;
  for (const Pass& pass : passes) most_tokens = std::max(most_tokens, pass.work->batch.tokens);
  const bool phased = menu[0].topology == kF3;
  const WorkspaceParts parts{
      .middle = phased, .slots = setup.ordered, .row_a_pair = setup.row_a_pair};
  const std::size_t bytes = workspace_layout(shape, most_tokens, parts).bytes;
  std::unique_ptr<unsigned char, decltype(&std::free)> workspace(
      static_cast<unsigned char*>(std::aligned_alloc(kWorkspaceAlignment, bytes)), &std::free);
  std::memset(workspace.get(), 0xff, bytes);
  std::memset(workspace.get(), 0, sizeof(LayerState));  // as init_workspace does

  LayerOptions options;
  options.shape = shape;
  options.experts = setup.setting.experts;
  options.menu = menu;
  options.theta = setup.theta;
  const std::vector<int>& map = setup.setting.expert_map;
  const LayerArguments shared =
      shared_arguments(options, setup.setting.first_expert, map.empty() ? nullptr : map.data(),
                       setup.weights->s13.data(), setup.weights->s2.data(), setup.sms, 4.58);

  std::vector<PassResult> results(passes.size());
  std::vector<Launch> launches;
  std::deque<std::array<gpu::TensorMapSpec, 2>> row_specs;  // of each pass: rows, middle
  std::deque<std::array<EmulatedMap, 2>> row_maps;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const CheckCase& work = *passes[i].work;
    const bool quantised = !work.batch.hidden_q.empty();
    WorkspaceParts needed = parts;
    needed.grouped = !work.ready_counts.empty();
    const bool row_by_row = is_row_by_row(work.scale_strides, shape.hidden, work.slots);
    const LayerMode mode{phased, setup.ordered, setup.row_a_pair && !needed.grouped && !quantised,
                         setup.row_a_pair && needed.grouped && quantised && row_by_row};
    needed.row_a_pair = mode.row_a_pair;
    needed.rows_q = !quantised;
    needed.rows_scale = !quantised || !row_by_row || mode.orders_scales;
    const Workspace w = workspace_layout(shape, work.batch.tokens, needed);
    PassResult& result = results[i];
    result.output.assign(work.want.size(), 0xffff);
    LayerArguments arguments = shared;
    place_in_workspace(arguments, w, reinterpret_cast<char*>(workspace.get()));
    PrepareArgs& p = arguments.prepare;
    FfnArgs& f = arguments.ffn;
    p.output = f.output = result.output.data();
    if (work.ready_counts.empty())
      p.ids = work.batch.ids.data();
    else
      p.ready_counts = work.ready_counts.data();
    p.gates = work.batch.gates.data();
    set_rows(
        arguments,
        quantised ? static_cast<const void*>(work.batch.hidden_q.data()) : work.batch.hidden.data(),
        quantised ? work.scales.data() : nullptr, work.scale_strides, work.slots);
    p.tokens = work.batch.tokens;
    p.forced = passes[i].forced;
    f.prefill = std::min(passes[i].prefill, deepest_prefill(menu, shape.hidden));
    f.prefill_down = passes[i].prefill_down ? f.prefill : 0;
    if (setup.down_parts) f.down_parts = *setup.down_parts;
    set_mode(arguments, mode);
    for (Launch& launch : prepare_launches(p, setup.sms)) launches.push_back(std::move(launch));
    row_specs.push_back({rows_map_spec(address(f.rows_q), f.most_rows, shape.hidden),
                         rows_map_spec(address(f.middle_q), f.most_rows, shape.intermediate)});
    row_maps.push_back({EmulatedMap{&row_specs.back()[0]}, EmulatedMap{&row_specs.back()[1]}});
    launches.push_back(ffn_launch(
        *setup.menu, f, {&map13, &map2, &row_maps.back()[0], &row_maps.back()[1]}, setup.sms));
    if (runs_combine(arguments))
      launches.push_back(combine_launch(combine_arguments(arguments), setup.sms));
    Launch look;  // what the pass left, before the next one writes over it
    look.name = "look";
    look.threads = 1;
    look.programmatic = false;
    look.body = [&result, p] {
      result.state = *p.state;
      result.counts.assign(p.counts, p.counts + p.local_experts);
    };
    launches.push_back(look);
  }
  run(launches, seed);
  return results;
}

HostWeights random_host_weights(const LocalShape& shape, std::uint64_t seed) {
  const auto e = static_cast<std::size_t>(shape.experts),
             d = static_cast<std::size_t>(shape.hidden),
             h = static_cast<std::size_t>(shape.intermediate);
  Random random(seed, 7);
  HostWeights w;
  w.w13.resize(e * 2 * h * d);
  w.w2.resize(e * d * h);
  for (auto* codes : {&w.w13, &w.w2})
    for (std::uint8_t& c : *codes) c = to_e4m3(static_cast<float>(random.normal() * 100));
  const auto scales = [&](std::size_t count, std::size_t width) {
    std::vector<float> s(count);
    for (float& x : s)
      x = static_cast<float>((0.5 + random.uniform()) / 100 /
                             std::sqrt(static_cast<double>(width)));
    return s;
  };
  w.s13 = scales(e * 2 * (h / kScaleGroup) * (d / kScaleGroup), d);
  w.s2 = scales(e * (d / kScaleGroup) * (h / kScaleGroup), h);
  return w;
}

}  // namespace ramp::emulator
