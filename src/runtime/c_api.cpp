// SPDX-License-Identifier: Apache-2.0
// The C interface (include/ramp/ramp.h) over Layer.  Here structs of unknown age become values, and
// exceptions become a status and a text of the calling thread.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/build.hpp"
#include "base/error.hpp"
#include "kernels/ffn/space.hpp"
#include "problem/catalog.hpp"
#include "ramp/ramp.h"
#include "runtime/default_menu.hpp"
#include "runtime/layer_by_size.hpp"
#include "runtime/plan_options.hpp"

struct ramp_layer {
  ramp::LayerBySize layers;
  std::string description;
};

namespace {

using ramp::Error;

std::string& last_error() {
  thread_local std::string text;
  return text;
}

ramp_status failed(ramp_status status, const char* text) noexcept {
  try {
    last_error() = text;
  } catch (...) {
    last_error().clear();
  }
  return status;
}

// Runs the body of an entry point: no exception leaves it.
template <class Body>
ramp_status guarded(const Body& body) noexcept {
  try {
    last_error().clear();
    body();
    return RAMP_OK;
  } catch (const ramp::gpu::CudaError& e) {
    return failed(RAMP_ERROR_CUDA, e.what());
  } catch (const Error& e) {
    return failed(RAMP_ERROR_ARGUMENT, e.what());
  } catch (const std::bad_alloc&) {
    return failed(RAMP_ERROR_MEMORY, "no memory on the host");
  } catch (const std::exception& e) {
    return failed(RAMP_ERROR_INTERNAL, e.what());
  } catch (...) {
    return failed(RAMP_ERROR_INTERNAL, "an exception of unknown type");
  }
}

template <class T>
T& required(const char* name, T* pointer) {
  if (!pointer) throw Error(name, "NULL", "a pointer", "");
  return *pointer;
}

// A struct as this version knows it.  Older callers leave out fields at the end, which are then 0;
// newer callers may bring more, as long as what we don't know is 0.
template <class T>
T read_struct(const char* name, const T* from, std::size_t oldest) {
  const std::size_t size = required(name, from).struct_size;
  constexpr std::size_t kLargest = 1 << 16;
  if (size < oldest || size > kLargest)
    throw Error(fmt::format("{}.struct_size", name), fmt::format("{}", size),
                fmt::format("{} (sizeof the struct) or more", oldest),
                "set it to sizeof; the header must be of this library's version");
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t i = sizeof(T); i < size; ++i)
    if (bytes[i])
      throw Error(fmt::format("{}.struct_size", name), fmt::format("{}", size),
                  fmt::format("{}: fields behind that are unknown to ABI version {}", sizeof(T),
                              RAMP_ABI_VERSION),
                  "use a newer library, or leave new fields 0");
  T value{};
  std::memcpy(static_cast<void*>(&value), from, std::min(size, sizeof(T)));
  return value;
}

void require_flags(const char* name, std::uint32_t flags, std::uint32_t known) {
  if (flags & ~known)
    throw Error(fmt::format("{}.flags", name), fmt::format("{:#x}", flags),
                fmt::format("bits of {:#x}", known), "use a newer library");
}

int required_index(const char* name, int value) {
  if (value < 0) throw Error(name, fmt::format("{}", value), "0 or more", "");
  return value;
}

ramp::gpu::CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<ramp::gpu::CUdeviceptr>(pointer);
}

ramp::gpu::CUstream stream_of(void* stream) { return static_cast<ramp::gpu::CUstream>(stream); }

// What of the shape the caller said; with a plan the rest is the plan's.
std::optional<ramp::LocalShape> shape_beside(const ramp_layer_options& o,
                                             const ramp::LocalShape& plan) {
  ramp::LocalShape shape = plan;
  if (o.local_experts) shape.experts = o.local_experts;
  if (o.top_k) shape.top_k = o.top_k;
  if (o.hidden) shape.hidden = o.hidden;
  if (o.intermediate) shape.intermediate = o.intermediate;
  return shape;
}

struct Origin {
  std::vector<ramp::SizedOptions> sizes;
  std::optional<ramp::Plan> plan;
  bool planned = false;  // the default menu
};

ramp::LayerOptions geometry(const ramp_layer_options& o) {
  ramp::LayerOptions options;
  options.shape = {o.local_experts, o.top_k, o.hidden, o.intermediate};
  options.experts = o.experts;
  options.first_expert = o.first_expert;
  // The size is checked before memory is taken for it.
  if (o.experts < 1 || o.experts > ramp::kMaxModelExperts)
    throw Error("options.experts", fmt::format("{}", o.experts),
                fmt::format("1 to {}", ramp::kMaxModelExperts),
                "give the model's number of routed experts");
  if (o.expert_map) options.expert_map.assign(o.expert_map, o.expert_map + o.experts);
  return options;
}

Origin from_plan(const ramp_layer_options& o) {
  Origin origin;
  origin.plan = o.plan_path ? ramp::read_plan(o.plan_path) : ramp::parse_plan(o.plan_text);
  ramp::LayerOptions given = geometry(o);
  ramp::PlanUse use;
  use.experts = given.experts;
  use.first_expert = given.first_expert;
  use.expert_map = std::move(given.expert_map);
  use.shape = shape_beside(o, origin.plan->shape);
  origin.sizes = all_options_from_plan(*origin.plan, use);
  return origin;
}

Origin from_knobs(const ramp_layer_options& o) {
  if (o.num_entries < 1 || o.num_entries > RAMP_MAX_ENTRIES)
    throw Error("options.num_entries", fmt::format("{}", o.num_entries),
                fmt::format("1 to {}", RAMP_MAX_ENTRIES), "");
  required("options.theta", o.theta);
  ramp::LayerOptions options = geometry(o);
  for (int i = 0; i < o.num_entries; ++i) {
    const char* knobs = &required(fmt::format("options.knobs[{}]", i).c_str(), o.knobs[i]);
    options.menu.push_back(ramp::ffn_from_knobs(knobs));
    const ramp_theta& t = o.theta[i];
    options.theta.push_back({t.fixed, t.wave, t.tile, t.expert});
  }
  return {{{0, std::move(options)}}, {}, false};
}

// What can be said before the GPU is asked for.
Origin origin_of(const ramp_layer_options& o) {
  if ((o.plan_path != nullptr) + (o.plan_text != nullptr) + (o.knobs != nullptr) > 1)
    throw Error("options", "more than one of plan_path, plan_text and knobs", "one, or none", "");
  if (o.plan_path || o.plan_text) return from_plan(o);
  if (o.knobs) return from_knobs(o);
  return {{{0, with_default_menu(geometry(o), ramp::gpu_like(""))}}, {}, true};
}

void fit_to_device(Origin& origin, const ramp::gpu::DeviceInfo& device, bool foreign_gpu) {
  if (origin.plan && !foreign_gpu) require_plan_gpu(*origin.plan, device);
  if (origin.planned)
    for (ramp::SizedOptions& sized : origin.sizes)
      sized.options = with_default_menu(std::move(sized.options), ramp::gpu_like(device.name));
}

// Why predictions may be off.
std::string notes_of(const Origin& origin) {
  if (origin.planned) return "planned from the GPU's constants, not measured; `ramp tune` measures";
  return origin.plan ? plan_staleness(*origin.plan) : "";
}

nlohmann::ordered_json menu_json(const ramp::LayerOptions& o) {
  nlohmann::ordered_json menu = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < o.menu.size(); ++i) {
    const ramp::Theta& t = o.theta[i];
    menu.push_back({{"label", ffn_label(o.menu[i])},
                    {"knobs", nlohmann::ordered_json::parse(ffn_knobs(o.menu[i]))},
                    {"theta",
                     {{"fixed_us", t.fixed},
                      {"wave_us", t.wave},
                      {"tile_us", t.tile},
                      {"expert_us", t.expert}}}});
  }
  return menu;
}

ramp_call read_call(const ramp_call* call) {
  const ramp_call c = read_struct("call", call, offsetof(ramp_call, stream) + sizeof(void*));
  require_flags("call", c.flags,
                RAMP_CALL_FORCE | RAMP_CALL_PREFILL | RAMP_CALL_PREPARE_ONLY | RAMP_CALL_FFN_ONLY);
  return c;
}

ramp::LayerCall layer_call(const ramp_call& c) {
  ramp::LayerCall to;
  to.tokens = c.tokens;
  to.hidden = address(c.hidden);
  to.ids = address(c.ids);
  to.gates = address(c.gates);
  to.ready_counts = address(c.ready_counts);
  to.slots = c.slots;
  to.expected_rows = c.expected_rows;
  to.hidden_scales = address(c.hidden_scales);
  to.scale_strides = {c.scale_strides[0], c.scale_strides[1], c.scale_strides[2]};
  to.output = address(c.output);
  to.workspace = address(c.workspace);
  to.workspace_bytes = c.workspace_bytes;
  to.stream = stream_of(c.stream);
  if (c.flags & RAMP_CALL_FORCE) to.forced = required_index("call.entry", c.entry);
  if (c.flags & RAMP_CALL_PREFILL) to.prefill = required_index("call.prefill", c.prefill);
  to.prepare = !(c.flags & RAMP_CALL_FFN_ONLY);
  to.ffn = !(c.flags & RAMP_CALL_PREPARE_ONLY);
  return to;
}

// What decides which menu runs.
int size_of(const ramp_call& c) { return c.expected_rows > 0 ? c.expected_rows : c.tokens; }

std::string describe(const ramp::LayerBySize& layers, const Origin& origin) {
  const ramp::Layer& layer = layers.largest();
  const ramp::LayerOptions& o = layer.options();
  nlohmann::ordered_json smaller = nlohmann::ordered_json::array();
  layers.for_each([&](int up_to, const ramp::Layer& l) {
    if (up_to) smaller.push_back({{"up_to", up_to}, {"menu", menu_json(l.options())}});
  });
  const nlohmann::ordered_json json = {{"menu", menu_json(o)},
                                       {"smaller", smaller},
                                       {"shape",
                                        {{"experts", o.shape.experts},
                                         {"top_k", o.shape.top_k},
                                         {"hidden", o.shape.hidden},
                                         {"intermediate", o.shape.intermediate}}},
                                       {"plan", origin.plan ? origin.plan->identity : ""},
                                       {"notes", notes_of(origin)},
                                       {"max_tokens", layer.max_tokens()},
                                       {"device", layer.kernels().device().name},
                                       {"registers", layer.kernels().ffn().registers()},
                                       {"shared_bytes", layer.kernels().ffn().shared_bytes()}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

extern "C" {

int32_t ramp_abi_version(void) { return RAMP_ABI_VERSION; }

const char* ramp_version(void) {
  static const std::string text =
      fmt::format("{} ({})", ramp::build_version(), ramp::build_commit());
  return text.c_str();
}

const char* ramp_last_error(void) { return last_error().c_str(); }

ramp_status ramp_layer_create(const ramp_layer_options* options, const ramp_weights* weights,
                              ramp_layer** layer) {
  if (layer) *layer = nullptr;
  return guarded([&] {
    required("layer", layer);
    const ramp_layer_options o =
        read_struct("options", options, offsetof(ramp_layer_options, cache_dir) + sizeof(char*));
    const ramp_weights w =
        read_struct("weights", weights, offsetof(ramp_weights, s2) + sizeof(float*));
    require_flags("options", o.flags, RAMP_LAYER_ALLOW_COMPILE | RAMP_LAYER_ALLOW_FOREIGN_GPU);
    const ramp::DeviceWeights view{address(w.w13), address(w.s13), address(w.w2), address(w.s2)};

    Origin origin = origin_of(o);
    for (const ramp::SizedOptions& sized : origin.sizes) check_layer_options(sized.options);
    check_device_weights(view);
    fit_to_device(origin, ramp::current_device(), o.flags & RAMP_LAYER_ALLOW_FOREIGN_GPU);
    ramp::gpu::CacheOptions cache_options = ramp::gpu::cache_options_from_environment();
    if (o.cache_dir) cache_options.directory = o.cache_dir;
    ramp::gpu::CubinCache cache(cache_options);
    const bool compile = o.flags & RAMP_LAYER_ALLOW_COMPILE;
    auto made = std::make_unique<ramp_layer>();
    for (const ramp::SizedOptions& sized : origin.sizes)
      made->layers.add(sized.up_to,
                       ramp::Layer(ramp::shared_kernels(sized.options.menu, cache, compile),
                                   sized.options, view));
    made->description = describe(made->layers, origin);
    *layer = made.release();
  });
}

void ramp_layer_destroy(ramp_layer* layer) { delete layer; }

ramp_status ramp_layer_describe(const ramp_layer* layer, const char** json) {
  return guarded([&] { required("json", json) = required("layer", layer).description.c_str(); });
}

ramp_status ramp_workspace_bytes(const ramp_layer* layer, int32_t tokens, size_t* bytes) {
  return guarded([&] {
    required("bytes", bytes) = required("layer", layer).layers.largest().workspace_bytes(tokens);
  });
}

ramp_status ramp_workspace_init(const ramp_layer* layer, void* workspace, void* stream) {
  return guarded([&] {
    required("layer", layer).layers.largest().init_workspace(address(workspace), stream_of(stream));
  });
}

ramp_status ramp_call_workspace_bytes(const ramp_layer* layer, const ramp_call* call,
                                      size_t* bytes) {
  return guarded([&] {
    const ramp_layer& l = required("layer", layer);
    const ramp_call c = read_call(call);
    std::size_t most = 0;  // whichever menu runs
    l.layers.for_each([&](int, const ramp::Layer& one) {
      most = std::max(most, one.workspace_bytes(layer_call(c)));
    });
    required("bytes", bytes) = most;
  });
}

ramp_status ramp_layer_forward(const ramp_layer* layer, const ramp_call* call) {
  return guarded([&] {
    const ramp_layer& l = required("layer", layer);
    const ramp_call c = read_call(call);
    l.layers.of(size_of(c)).forward(layer_call(c));
  });
}

ramp_status ramp_layer_counters(const ramp_layer* layer, void* workspace, void* stream,
                                int32_t clear, ramp_counters* counters) {
  return guarded([&] {
    const ramp_layer& l = required("layer", layer);
    constexpr std::size_t kSize = offsetof(ramp_counters, last_tiles) + sizeof(int32_t);
    ramp_counters out = read_struct("counters", counters, kSize);
    const ramp::LayerCounters c =
        l.layers.largest().counters(address(workspace), stream_of(stream));
    out.passes = c.passes;
    out.foreign = c.foreign;
    out.padded = c.padded;
    out.invalid = c.invalid;
    out.duplicate = c.duplicate;
    out.nan_gates = c.nan_gates;
    std::fill(std::begin(out.entry_runs), std::end(out.entry_runs), 0u);
    std::copy(c.entry_runs.begin(), c.entry_runs.end(), out.entry_runs);
    out.last_entry = c.last_entry;
    out.last_rows = c.last_rows;
    out.last_tiles = c.last_tiles;
    std::memcpy(counters, &out, std::min(out.struct_size, sizeof out));
    if (clear) l.layers.largest().clear_counters(address(workspace), stream_of(stream));
  });
}

}  // extern "C"
