// SPDX-License-Identifier: Apache-2.0
// The compiled kernels of one menu in one context: what all layers of a model share.
#pragma once

#include <memory>
#include <vector>

#include "gpu/cubin_cache.hpp"
#include "gpu/device.hpp"
#include "kernels/ffn/program.hpp"
#include "kernels/prepare/program.hpp"

namespace ramp {

class Kernels {
 public:
  // Into the current context, which must be one of `info`'s device.
  Kernels(gpu::DeviceInfo info, const gpu::Cubin& prepare, const gpu::Cubin& ffn,
          std::vector<FfnConfig> menu);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  const PrepareProgram& prepare() const { return *prepare_; }
  const FfnProgram& ffn() const { return *ffn_; }
  const std::vector<FfnConfig>& menu() const { return ffn_->menu(); }
  const gpu::DeviceInfo& device() const { return info_; }
  gpu::CUcontext context() const { return context_; }

 private:
  gpu::DeviceInfo info_;
  gpu::CUcontext context_ = nullptr;
  std::unique_ptr<PrepareProgram> prepare_;
  std::unique_ptr<FfnProgram> ffn_;
};

// What compiling a menu found, for people; needs no GPU.
struct CompiledMenu {
  int registers = 0;     // a thread at launch
  int shared_bytes = 0;  // a block, dynamic
  std::size_t code_bytes = 0;
  double seconds = 0;   // that compiling took, now or when the cache got it
  bool cached = false;  // both kernels were there already
};

// Puts a menu's kernels into the cache so that serving finds them.  Throws Error when an entry does
// not compile cleanly.
CompiledMenu compile_menu(const std::vector<FfnConfig>& menu, gpu::CubinCache& cache);

// The device of the calling thread's current context.  Throws Error where there is no context.
gpu::DeviceInfo current_device();

// Into the current context.  allow_compile: whether a kernel that is not in the cache may be
// compiled now (seconds a menu); a serving process says no and gets an Error that names the step
// that fills the cache.  Throws Error on a GPU that can't run sm_90a.
std::shared_ptr<const Kernels> load_kernels(const std::vector<FfnConfig>& menu,
                                            gpu::CubinCache& cache, bool allow_compile);
// Into `context`, which becomes current.
std::shared_ptr<const Kernels> load_kernels(const gpu::Context& context,
                                            const std::vector<FfnConfig>& menu,
                                            gpu::CubinCache& cache, bool allow_compile);

// The same, but kernels of an equal menu that are still in use in the current context are used
// again.  Safe from any thread.
std::shared_ptr<const Kernels> shared_kernels(const std::vector<FfnConfig>& menu,
                                              gpu::CubinCache& cache, bool allow_compile);

}  // namespace ramp
