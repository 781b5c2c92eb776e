// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/layer.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/ffn/program.hpp"
#include "kernels/ffn/weight_maps.hpp"
#include "kernels/prepare/workspace.hpp"
#include "problem/random.hpp"
#include "runtime/layer.hpp"

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
  const gpu::TensorMapSpec w13 = w13_map_spec(shape, address(setup.weights->w13.data()));
  const gpu::TensorMapSpec w2 = w2_map_spec(shape, address(setup.weights->w2.data()));
  gpu::validate(w13, "w13");
  gpu::validate(w2, "w2");
  const EmulatedMap map13{&w13}, map2{&w2};

  int most_tokens = 1;
  for (const Pass& pass : passes) most_tokens = std::max(most_tokens, pass.work->batch.tokens);
  const std::size_t bytes = workspace_layout(shape, most_tokens).bytes;
  std::unique_ptr<unsigned char, decltype(&std::free)> workspace(
      static_cast<unsigned char*>(std::aligned_alloc(kWorkspaceAlignment, bytes)), &std::free);
  std::memset(workspace.get(), 0xff, bytes);
  std::memset(workspace.get(), 0, sizeof(LayerState));  // as init_workspace does

  PrepareArgs prepare{};
  prepare.top_k = shape.top_k;
  prepare.hidden_size = shape.hidden;
  prepare.experts = setup.setting.experts;
  prepare.first_expert = setup.setting.first_expert;
  if (!setup.setting.expert_map.empty()) prepare.expert_map = setup.setting.expert_map.data();
  prepare.local_experts = shape.experts;
  prepare.owned_experts = ffn_owned_experts(menu[0], shape.intermediate, setup.sms, shape.experts);
  prepare.menu.entries = static_cast<int>(menu.size());
  for (std::size_t i = 0; i < menu.size(); ++i)
    prepare.menu.entry[i] = {ffn_grid(menu[i], shape.intermediate, setup.sms), setup.theta[i]};
  FfnArgs ffn{};
  ffn.scale13 = setup.weights->s13.data();
  ffn.scale2 = setup.weights->s2.data();
  ffn.hidden = shape.hidden;
  ffn.intermediate = shape.intermediate;
  ffn.owned_experts = prepare.owned_experts;

  std::vector<PassResult> results(passes.size());
  std::vector<Launch> launches;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const CheckCase& work = *passes[i].work;
    const Workspace w = workspace_layout(shape, work.batch.tokens);
    PassResult& result = results[i];
    result.output.assign(work.batch.hidden.size(), 0xffff);
    PrepareArgs p = prepare;
    FfnArgs f = ffn;
    const auto at = [&]<class T>(T*& pointer, std::size_t offset) {
      pointer = reinterpret_cast<T*>(workspace.get() + offset);
    };
    at(p.state, w.state), at(f.state, w.state);
    at(p.counts, w.counts), at(f.counts, w.counts);
    at(p.rows, w.rows), at(f.rows, w.rows);
    at(p.head, w.head), at(f.head, w.head);
    at(p.tile, w.tiles), at(f.tile, w.tiles);
    at(p.rows_scale, w.rows_scale), at(f.rows_scale, w.rows_scale);
    at(p.rows_q, w.rows_q), at(f.rows_q, w.rows_q);
    p.output = f.output = result.output.data();
    if (work.ready_counts.empty())
      p.ids = work.batch.ids.data();
    else
      p.ready_counts = work.ready_counts.data();
    p.gates = work.batch.gates.data();
    p.hidden = work.batch.hidden.data();
    p.tokens = work.batch.tokens;
    p.forced = passes[i].forced;
    f.prefill = std::min(passes[i].prefill, deepest_prefill(menu, shape.hidden));
    if (!passes[i].whole) launches.push_back(prepare_launch(p, setup.sms));
    launches.push_back(
        ffn_launch(*setup.menu, f, &map13, &map2, setup.sms, passes[i].whole ? &p : nullptr));
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
