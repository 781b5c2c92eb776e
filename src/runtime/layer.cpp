// SPDX-License-Identifier: Apache-2.0
#include "runtime/layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/error.hpp"
#include "choice/measured.hpp"
#include "gpu/stream.hpp"
#include "kernels/ffn/space.hpp"
#include "kernels/prepare/runs.h"
#include "problem/catalog.hpp"
#include "runtime/layer_arguments.hpp"
#include "runtime/prefill.hpp"

namespace ramp {
namespace {

// Makes a context current for a call from a thread that has another one, or none.
class InContext {
 public:
  explicit InContext(gpu::CUcontext context) {
    gpu::CUcontext current = nullptr;
    gpu::driver().cuCtxGetCurrent(&current);
    if (current == context) return;
    gpu::check(gpu::driver().cuCtxPushCurrent_v2(context), "making the layer's context current");
    pushed_ = true;
  }
  ~InContext() {
    gpu::CUcontext popped = nullptr;
    if (pushed_) gpu::driver().cuCtxPopCurrent_v2(&popped);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  bool pushed_ = false;
};

void require_pointer(const char* field, gpu::CUdeviceptr value, unsigned alignment) {
  if (value == 0 || value % alignment)
    throw Error(field, value ? fmt::format("{:#x}", value) : "null",
                fmt::format("a device address on {} bytes", alignment),
                "pass the tensor's own, contiguous storage");
}

// The device reads maps and ids without a second look at the map, so it is right or not taken.
void check_expert_map(const LayerOptions& o) {
  if (o.expert_map.empty()) {
    if (o.first_expert < 0 || o.first_expert + o.shape.experts > o.experts)
      throw Error("first_expert", fmt::format("{}", o.first_expert),
                  fmt::format("0 to {} ({} experts of {} are local)", o.experts - o.shape.experts,
                              o.shape.experts, o.experts),
                  "or pass an expert map");
    return;
  }
  if (static_cast<int>(o.expert_map.size()) != o.experts)
    throw Error("expert_map", fmt::format("{} entries", o.expert_map.size()),
                fmt::format("{}, one an expert of the model", o.experts), "");
  std::vector<int> owner(o.shape.experts, -1);
  for (int id = 0; id < o.experts; ++id) {
    const int local = o.expert_map[id];
    if (local < -1 || local >= o.shape.experts)
      throw Error(fmt::format("expert_map/{}", id), fmt::format("{}", local),
                  fmt::format("-1 (another GPU) or 0 to {}", o.shape.experts - 1), "");
    if (local >= 0 && owner[local] >= 0)
      throw Error(fmt::format("expert_map/{}", id),
                  fmt::format("{}, as expert_map/{} has", local, owner[local]),
                  "every local expert at most once", "");
    if (local >= 0) owner[local] = id;
  }
}

void check_slots(const LocalShape& shape, const LayerCall& call) {
  const long long places = 1LL * shape.experts * call.slots;
  if (call.slots < 0 || (call.slots > 0 && !call.ready_counts))
    throw Error("slots", fmt::format("{}{}", call.slots, call.slots > 0 ? " beside ids" : ""),
                "0, or with ready_counts the rows that each expert has places for", "");
  if (call.slots > 0 && places != call.tokens)
    throw Error("tokens", fmt::format("{}", call.tokens),
                fmt::format("{} local experts x {} slots = {}", shape.experts, call.slots, places),
                "count the places, filled or not: they are the rows of hidden");
  if (call.expected_rows < 0 || (call.expected_rows > 0 && !call.ready_counts))
    throw Error("expected_rows", fmt::format("{}", call.expected_rows),
                "0 (unknown) or, with ready_counts, the rows that are likely", "");
}

void check_scales(const LayerCall& call) {
  const ScaleStrides& by = call.scale_strides;
  const bool given = by.expert != 0 || by.row != 0 || by.group != 0;
  const std::string text = fmt::format("{}, {}, {}", by.expert, by.row, by.group);
  if (!call.hidden_scales) {
    if (given)
      throw Error("scale_strides", text, "0, 0, 0 without hidden_scales",
                  "pass the scales of the e4m3 rows, or bf16 rows and nothing of scales");
    return;
  }
  require_pointer("hidden_scales", call.hidden_scales, 4);
  constexpr long long kMost = 1LL << 40;  // bytes that no GPU has; nothing overflows below
  const auto fits = [](long long stride, long long least) {
    return stride >= least && stride <= kMost;
  };
  if (given && !(fits(by.row, 1) && fits(by.group, 1) && fits(by.expert, call.slots > 0 ? 1 : 0)))
    throw Error("scale_strides", text,
                "floats from expert to expert (of slots), row to row and group to group, each 1 or "
                "more; or all 0: [tokens, d / 128]",
                "pass the tensor's strides in elements");
}

void check_tokens(const LocalShape& shape, const LayerCall& call) {
  const int most = call.ready_counts ? kMaxPairs : max_tokens_of(shape);
  if (call.tokens < 0 || call.tokens > most)
    throw Error("tokens", fmt::format("{}", call.tokens), fmt::format("0 to {}", most),
                "split the batch");
}

int rows_expected(const LayerCall& call) {
  return call.expected_rows > 0 ? std::min(call.expected_rows, call.tokens) : call.tokens;
}

LayerMode mode_of(const LayerOptions& o, const LayerCall& call) {
  LayerMode mode{.phased = o.menu[0].topology == kF3, .ordered = o.ordered};
  const bool grouped = call.ready_counts != 0, quantised = call.hidden_scales != 0;
  if (!mode.phased || grouped != quantised) return mode;
  const LocalShape& shape = o.shape;
  const auto pays = [&](int rows, int tokens) {
    return o.row_a_pair.value_or(pays_row_a_pair(shape.intermediate, shape.experts, rows, tokens));
  };
  if (grouped) {
    mode.orders_scales = is_row_by_row(call.scale_strides, shape.hidden, call.slots) &&
                         pays(rows_expected(call), rows_expected(call));
  } else {
    const long long pairs = static_cast<long long>(call.tokens) * shape.top_k;
    mode.row_a_pair = pays(static_cast<int>(pairs * shape.experts / o.experts), call.tokens);
  }
  return mode;
}

// What a call needs of the workspace.
WorkspaceParts parts_of(const LayerOptions& o, const LayerCall& call) {
  const LayerMode mode = mode_of(o, call);
  WorkspaceParts parts{.middle = mode.phased, .slots = mode.ordered};
  parts.row_a_pair = mode.row_a_pair;
  parts.grouped = call.ready_counts != 0;
  parts.rows_q = !call.hidden_scales;
  parts.rows_scale = !call.hidden_scales || mode.orders_scales ||
                     !is_row_by_row(call.scale_strides, o.shape.hidden, call.slots);
  return parts;
}

}  // namespace

int max_tokens_of(const LocalShape& shape) { return kMaxPairs / std::max(1, shape.top_k); }

void check_layer_options(const LayerOptions& o) {
  require_ffn_shape(o.shape);
  if (o.experts < o.shape.experts || o.experts > kMaxModelExperts)
    throw Error("experts", fmt::format("{}", o.experts),
                fmt::format("{} (the local ones) to {}", o.shape.experts, kMaxModelExperts),
                "give the model's number of routed experts");
  check_expert_map(o);
  require_legal_menu(o.menu);
  if (o.ordered && !runs_ordered(o.menu[0]))
    throw Error("menu/0", ffn_label(o.menu[0]),
                "entries of topology f3: f1 adds the slices of h in any order",
                "make the plan with `ramp tune --mode ordered`, or run it in `fast` mode");
  if (const char* why = ffn_shape_refusal(o.menu[0], o.shape.hidden, o.shape.intermediate))
    throw Error("menu/0", ffn_label(o.menu[0]),
                fmt::format("entries that run this shape ({})", why),
                "take other entries, or make the plan again with `ramp tune`");
  if (o.theta.size() != o.menu.size())
    throw Error("theta", fmt::format("{} entries", o.theta.size()),
                fmt::format("{}, one a menu entry", o.menu.size()), "");
  for (std::size_t i = 0; i < o.theta.size(); ++i)
    for (float us : {o.theta[i].fixed, o.theta[i].wave, o.theta[i].tile, o.theta[i].expert})
      if (!std::isfinite(us) || us < 0)
        throw Error(fmt::format("theta/{}", i), fmt::format("{}", us), "finite, 0 or more",
                    "re-fit with `ramp fit`");
}

void check_device_weights(const DeviceWeights& weights) {
  require_pointer("weights/w13", weights.w13, 16);
  require_pointer("weights/s13", weights.s13, 4);
  require_pointer("weights/w2", weights.w2, 16);
  require_pointer("weights/s2", weights.s2, 4);
}

void check_layer_call(const LayerOptions& o, const LayerCall& call) {
  const LocalShape& shape = o.shape;
  check_tokens(shape, call);
  require_pointer("hidden", call.hidden, 16);
  require_pointer("output", call.output, 16);
  require_pointer("workspace", call.workspace, kWorkspaceAlignment);
  if (!call.ids == !call.ready_counts)
    throw Error(call.ids ? "ids and ready_counts" : "ids", call.ids ? "both" : "null",
                "one of ids and ready_counts", "");
  require_pointer(call.ids ? "ids" : "ready_counts", call.ids ? call.ids : call.ready_counts, 4);
  if (call.gates % 4) require_pointer("gates", call.gates, 4);
  check_slots(shape, call);
  check_scales(call);
  if (call.forced >= static_cast<int>(o.menu.size()) || call.forced < -1)
    throw Error("forced", fmt::format("{}", call.forced),
                fmt::format("-1 (choose) or an entry, 0 to {}", o.menu.size() - 1), "");
  // Only where a depth is given: every call of a server comes through here.
  const int deepest = call.prefill == -1 ? 0 : deepest_prefill(o.menu, shape.hidden);
  if (call.prefill > deepest || call.prefill < -1)
    throw Error("prefill", fmt::format("{}", call.prefill),
                fmt::format("-1 (the default) or 0 to {}", deepest), "");
  const gpu::CUdeviceptr elements = static_cast<gpu::CUdeviceptr>(call.tokens) * shape.hidden,
                         bytes = call.hidden_scales ? elements : elements * 2;
  if (call.hidden < call.output + elements * 2 && call.output < call.hidden + bytes)
    throw Error("output", fmt::format("{:#x}, which overlaps hidden", call.output),
                "memory of its own: the output is written while the rows are read", "");
}

int contiguous_first(std::span<const int> expert_map, int local_experts) {
  int first = -1;
  for (int id = 0; id < static_cast<int>(expert_map.size()); ++id) {
    const int local = expert_map[id];
    if (first < 0 && local == 0) first = id;
    const bool inside = first >= 0 && id < first + local_experts;
    if (local != (inside ? id - first : -1)) return -1;
  }
  const bool whole = first >= 0 && first + local_experts <= static_cast<int>(expert_map.size());
  return whole ? first : -1;
}

Layer::Layer(std::shared_ptr<const Kernels> kernels, LayerOptions options,
             const DeviceWeights& weights)
    : kernels_(std::move(kernels)), options_(std::move(options)) {
  const LayerOptions& o = options_;
  check_layer_options(o);
  check_device_weights(weights);
  if (!kernels_) throw Error("kernels", "null", "what load_kernels returns", "");
  const auto labels = [](const std::vector<FfnConfig>& menu) {
    std::string text;
    for (const FfnConfig& c : menu) text += (text.empty() ? "" : ", ") + ffn_label(c);
    return text;
  };
  if (labels(o.menu) != labels(kernels_->menu()))
    throw Error("menu", labels(o.menu), labels(kernels_->menu()) + " (that of the kernels)", "");
  const InContext in_context(kernels_->context());

  maps_ = make_weight_maps(o.shape, weights.w13, weights.w2, o.menu[0]);
  const int first =
      o.expert_map.empty() ? o.first_expert : contiguous_first(o.expert_map, o.shape.experts);
  if (first < 0) expert_map_ = gpu::Buffer::of(o.expert_map);
  max_tokens_ = max_tokens_of(o.shape);

  deepest_prefill_ = deepest_prefill(o.menu, o.shape.hidden);
  least_rows_ = std::min_element(o.menu.begin(), o.menu.end(), [](const auto& a, const auto& b) {
                  return a.rows < b.rows;
                })->rows;
  arguments_ = std::make_unique<const LayerArguments>(shared_arguments(
      o, std::max(first, 0), reinterpret_cast<const int*>(expert_map_.ptr()),
      reinterpret_cast<const float*>(weights.s13), reinterpret_cast<const float*>(weights.s2),
      kernels_->device().sms, gpu_like(kernels_->device().name).stream_tbps));
}

Layer::~Layer() {
  if (!kernels_) return;  // moved from
  gpu::CUcontext popped = nullptr;
  const bool entered = gpu::driver().cuCtxPushCurrent_v2(kernels_->context()) == gpu::cu::kSuccess;
  expert_map_ = gpu::Buffer();
  kernels_.reset();
  if (entered) gpu::driver().cuCtxPopCurrent_v2(&popped);
}

Layer::Layer(Layer&& other) noexcept = default;

std::size_t Layer::workspace_bytes(int tokens) const {
  LayerCall call;
  call.tokens = tokens;
  return workspace_bytes(call);
}

std::size_t Layer::workspace_bytes(const LayerCall& call) const {
  check_tokens(options_.shape, call);
  check_slots(options_.shape, call);
  check_scales(call);
  return workspace(call).bytes;
}

Workspace Layer::workspace(const LayerCall& call) const {
  return workspace_layout(options_.shape, call.tokens, parts_of(options_, call));
}

LayerMode Layer::mode(const LayerCall& call) const { return mode_of(options_, call); }

int Layer::prefill_of(int tokens, bool ready_counts) const {
  const double share = ready_counts
                           ? expected_active_share(options_.shape.experts, tokens)
                           : expected_active_share(options_.experts, static_cast<double>(tokens) *
                                                                         options_.shape.top_k);
  return default_prefill(share, deepest_prefill_);
}

int Layer::down_prefill_of(const LayerCall& call, int prefill) const {
  // Three deviations above the mean: one expert in a thousand has more.
  const double mean =
      call.ready_counts
          ? static_cast<double>(rows_expected(call)) / options_.shape.experts
          : static_cast<double>(call.tokens) * options_.shape.top_k / options_.experts;
  return down_prefill(prefill, mean + 3 * std::sqrt(mean), least_rows_,
                      arguments_->prepare.owned_experts == options_.shape.experts);
}

void Layer::forward(const LayerCall& call) const {
  if (call.tokens == 0) return;
  check_layer_call(options_, call);
  const Workspace w = workspace(call);
  if (call.workspace_bytes < w.bytes)
    throw Error("workspace_bytes", fmt::format("{}", call.workspace_bytes),
                fmt::format("at least {} for {} tokens", w.bytes, call.tokens),
                "ask for the workspace's size with the largest number of tokens");
  LayerArguments arguments = *arguments_;
  place_in_workspace(arguments, w, reinterpret_cast<char*>(call.workspace));
  PrepareArgs& p = arguments.prepare;
  FfnArgs& f = arguments.ffn;
  p.output = f.output = reinterpret_cast<unsigned short*>(call.output);
  p.ids = reinterpret_cast<const int*>(call.ids);
  p.gates = reinterpret_cast<const float*>(call.gates);
  p.ready_counts = reinterpret_cast<const int*>(call.ready_counts);
  p.expected_rows = call.expected_rows;
  p.tokens = call.tokens;
  p.forced = call.forced;
  set_rows(arguments, reinterpret_cast<const void*>(call.hidden),
           reinterpret_cast<const float*>(call.hidden_scales), call.scale_strides, call.slots);
  f.prefill =
      call.prefill >= 0 ? call.prefill : prefill_of(rows_expected(call), call.ready_counts != 0);
  f.prefill_down = down_prefill_of(call, f.prefill);
  set_mode(arguments, mode_of(options_, call));

  const InContext in_context(kernels_->context());
  const int sms = kernels_->device().sms;
  if (call.prepare) kernels_->prepare().launch(p, sms, call.stream);
  if (call.ffn) kernels_->ffn().launch(f, maps_, sms, call.stream);
  if (call.ffn && runs_combine(arguments))
    kernels_->prepare().launch_combine(combine_arguments(arguments), sms, call.stream);
}

void Layer::init_workspace(gpu::CUdeviceptr workspace, gpu::CUstream stream) const {
  require_pointer("workspace", workspace, kWorkspaceAlignment);
  const InContext in_context(kernels_->context());
  gpu::check(gpu::driver().cuMemsetD8Async(workspace, 0, sizeof(LayerState), stream),
             "clearing the workspace's counters");
}

void Layer::clear_counters(gpu::CUdeviceptr workspace, gpu::CUstream stream) const {
  require_pointer("workspace", workspace, kWorkspaceAlignment);
  const InContext in_context(kernels_->context());
  constexpr std::size_t kFirst = offsetof(LayerState, passes);
  gpu::check(
      gpu::driver().cuMemsetD8Async(workspace + kFirst, 0, sizeof(LayerState) - kFirst, stream),
      "clearing the workspace's counters");
}

LayerCounters Layer::counters(gpu::CUdeviceptr workspace, gpu::CUstream stream) const {
  require_pointer("workspace", workspace, kWorkspaceAlignment);
  const InContext in_context(kernels_->context());
  LayerState s{};
  gpu::check(gpu::driver().cuMemcpyDtoHAsync_v2(&s, workspace, sizeof s, stream),
             "reading the workspace's counters");
  gpu::synchronize(stream);
  LayerCounters c;
  c.passes = s.passes;
  c.foreign = s.foreign;
  c.padded = s.padded;
  c.invalid = s.invalid;
  c.duplicate = s.duplicate;
  c.nan_gates = s.nan_gate;
  c.entry_runs.assign(s.entry_runs, s.entry_runs + options_.menu.size());
  c.last_entry = s.choice;
  c.last_rows = s.rows;
  c.last_tiles = s.tiles;
  return c;
}

}  // namespace ramp
