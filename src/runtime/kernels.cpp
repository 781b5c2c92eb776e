// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "kernels/ffn/space.hpp"

namespace ramp {
namespace {

gpu::CUcontext current_context() {
  gpu::CUcontext context = nullptr;
  gpu::check(gpu::driver().cuCtxGetCurrent(&context), "asking for the current CUDA context");
  if (!context)
    throw Error("CUDA context", "none", "a context that is current in the calling thread",
                "select a device first (cudaSetDevice, torch.cuda.set_device), or name one");
  return context;
}

gpu::Cubin cubin_of(const gpu::CompileRequest& request, gpu::CubinCache& cache,
                    bool allow_compile) {
  if (allow_compile) return cache.get(request);
  if (std::optional<gpu::Cubin> found = cache.find(request)) return *std::move(found);
  throw Error("compiled kernel " + request.name,
              cache.enabled() ? "not in the cache " + cache.directory()
                              : "no cache (" + cache.why_disabled() + ")",
              "kernels compiled before serving starts",
              "run `ramp tune` or `ramp plan verify --compile` on this machine with the same "
              "RAMP_CACHE_DIR, or allow compiling");
}

std::string menu_key(const std::vector<FfnConfig>& menu) {
  std::string key;
  for (const FfnConfig& c : menu) key += ffn_label(c) + "\n";
  return key;
}

}  // namespace

Kernels::Kernels(gpu::DeviceInfo info, const gpu::Cubin& prepare, const gpu::Cubin& ffn,
                 std::vector<FfnConfig> menu)
    : info_(std::move(info)), context_(current_context()) {
  prepare_ = std::make_unique<PrepareProgram>(prepare);
  ffn_ = std::make_unique<FfnProgram>(ffn, std::move(menu));
  if (ffn_->shared_bytes() > info_.smem_per_block_optin)
    throw Error("shared memory of a block", fmt::format("{}", ffn_->shared_bytes()),
                fmt::format("at most {} on {}", info_.smem_per_block_optin, info_.name),
                "take a menu with smaller rings");
}

Kernels::~Kernels() {
  // Modules are unloaded in the context they were loaded in, whatever is current.
  gpu::CUcontext popped = nullptr;
  const bool entered = gpu::driver().cuCtxPushCurrent_v2(context_) == gpu::cu::kSuccess;
  ffn_.reset();
  prepare_.reset();
  if (entered) gpu::driver().cuCtxPopCurrent_v2(&popped);
}

CompiledMenu compile_menu(const std::vector<FfnConfig>& menu, gpu::CubinCache& cache) {
  CompiledMenu result;
  const gpu::CompileRequest ffn_wanted = ffn_request(menu), prepare_wanted = prepare_request();
  result.cached = cache.contains(ffn_wanted) && cache.contains(prepare_wanted);
  const gpu::Cubin prepare = cache.get(prepare_wanted);
  require_clean_prepare(prepare);
  const gpu::Cubin ffn = cache.get(ffn_wanted);
  require_clean_ffn(ffn, menu);
  result.registers = ffn.find(kFfnKernelName)->registers;
  result.shared_bytes = menu_shared_bytes(menu);
  result.code_bytes = ffn.bytes.size() + prepare.bytes.size();
  result.seconds = ffn.seconds + prepare.seconds;
  return result;
}

gpu::DeviceInfo current_device() {
  current_context();
  gpu::CUdevice device = 0;
  gpu::check(gpu::driver().cuCtxGetDevice(&device), "asking for the current device");
  for (int ordinal = 0; ordinal < gpu::device_count(); ++ordinal) {
    gpu::CUdevice candidate = 0;
    gpu::check(gpu::driver().cuDeviceGet(&candidate, ordinal), "naming a device");
    if (candidate == device) return gpu::device_info(ordinal);
  }
  throw Error("current device", fmt::format("{}", device), "one of the visible devices",
              "check CUDA_VISIBLE_DEVICES");
}

std::shared_ptr<const Kernels> load_kernels(const std::vector<FfnConfig>& menu,
                                            gpu::CubinCache& cache, bool allow_compile) {
  require_legal_menu(menu);
  gpu::DeviceInfo info = current_device();
  if (!info.runs_sm_90a())
    throw Error(
        "GPU",
        fmt::format("{} (compute capability {}.{})", info.name, info.cc_major, info.cc_minor),
        "compute capability 9.0 (H100, H200, H20): the kernels are sm_90a code",
        "run on such a GPU");
  const gpu::Cubin prepare = cubin_of(prepare_request(), cache, allow_compile);
  const gpu::Cubin ffn = cubin_of(ffn_request(menu), cache, allow_compile);
  return std::make_shared<const Kernels>(std::move(info), prepare, ffn, menu);
}

std::shared_ptr<const Kernels> load_kernels(const gpu::Context& context,
                                            const std::vector<FfnConfig>& menu,
                                            gpu::CubinCache& cache, bool allow_compile) {
  context.make_current();
  return load_kernels(menu, cache, allow_compile);
}

std::shared_ptr<const Kernels> shared_kernels(const std::vector<FfnConfig>& menu,
                                              gpu::CubinCache& cache, bool allow_compile) {
  static std::mutex mutex;
  static auto& loaded =
      *new std::map<std::pair<gpu::CUcontext, std::string>, std::weak_ptr<const Kernels>>;
  const std::pair key{current_context(), menu_key(menu)};
  const std::lock_guard lock(mutex);  // also: one thread compiles, the others wait for it
  if (auto found = loaded[key].lock()) return found;
  auto kernels = load_kernels(menu, cache, allow_compile);
  loaded[key] = kernels;
  return kernels;
}

}  // namespace ramp
