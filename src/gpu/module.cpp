// SPDX-License-Identifier: Apache-2.0
#include "gpu/module.hpp"

#include <utility>

namespace ramp::gpu {

void Kernel::set_max_dynamic_smem(int bytes) {
  check(driver().cuFuncSetAttribute(function_, cu::kFunctionMaxDynamicSmem, bytes),
        fmt::format("allowing {} {} bytes of shared memory", name_, bytes));
}

int Kernel::attribute(int which) const {
  int value = 0;
  check(driver().cuFuncGetAttribute(&value, which, function_), "reading an attribute of " + name_);
  return value;
}

KernelAttributes Kernel::attributes() const {
  KernelAttributes a;
  a.registers = attribute(cu::kFunctionRegisters);
  a.local_bytes = attribute(cu::kFunctionLocalBytes);
  a.static_smem = attribute(cu::kFunctionStaticSmem);
  a.max_threads = attribute(cu::kFunctionMaxThreads);
  a.max_dynamic_smem = attribute(cu::kFunctionMaxDynamicSmem);
  a.constant_bytes = attribute(cu::kFunctionConstBytes);
  return a;
}

int Kernel::occupancy(int threads, std::size_t smem) const {
  int blocks = 0;
  check(driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function_, threads, smem),
        "reading the occupancy of " + name_);
  return blocks;
}

namespace {

// As the driver wants it, with the attributes that it points to.
struct RawLaunch {
  CUlaunchAttribute attributes[2] = {};
  CUlaunchConfig config{};

  explicit RawLaunch(const LaunchConfig& c) {
    unsigned count = 0;
    if (c.programmatic) {
      attributes[count].id = cu::kLaunchProgrammaticStreamSerialization;
      attributes[count++].value.flag = 1;
    }
    if (c.cluster > 0) {
      attributes[count].id = cu::kLaunchClusterDimension;
      attributes[count++].value.cluster = {static_cast<unsigned>(c.cluster), 1, 1};
    }
    config = {c.grid[0],  c.grid[1], c.grid[2], c.block[0], c.block[1],
              c.block[2], c.smem,    c.stream,  attributes, count};
  }
  RawLaunch(const RawLaunch&) = delete;
};

}  // namespace

int Kernel::resident_clusters(const LaunchConfig& config) const {
  const RawLaunch raw(config);
  int clusters = 0;
  check(driver().cuOccupancyMaxActiveClusters(&clusters, function_, &raw.config),
        fmt::format("reading how many clusters of {} {} has room for", config.cluster, name_));
  return clusters;
}

void Kernel::launch(const LaunchConfig& config, void** args) const {
  const RawLaunch launch(config);
  const CUlaunchConfig& raw = launch.config;
  const CUresult result = driver().cuLaunchKernelEx(&raw, function_, args, nullptr);
  if (result !=
      cu::kSuccess)  // the text is built only when needed: launches are on the serving path
    check(result, fmt::format("launching {} with grid {}x{}x{}, block {}x{}x{}, {} bytes of shared "
                              "memory, cluster {}",
                              name_, raw.grid_x, raw.grid_y, raw.grid_z, raw.block_x, raw.block_y,
                              raw.block_z, raw.smem_bytes, config.cluster));
}

Module::Module(std::span<const char> cubin, std::string name) : name_(std::move(name)) {
  // The driver takes a pointer without a length: what is no ELF file must not reach it.
  if (cubin.size() < 64 || std::string_view(cubin.data(), 4) != "\177ELF")
    throw Error("cubin of " + name_, fmt::format("{} bytes that are no ELF file", cubin.size()),
                "a cubin as NVRTC writes it", "remove the cache directory and run again");
  const CUresult result = driver().cuModuleLoadData(&handle_, cubin.data());
  if (result == cu::kNoBinaryForGpu || result == cu::kInvalidImage)
    throw CudaError(
        result,
        fmt::format("loading the code of {}: {}; next: it is for compute capability 9.0 (sm_90a) "
                    "and for a driver at least as new as the NVRTC that made it; this driver runs "
                    "CUDA {}.{}, see `ramp doctor`",
                    name_, result_text(result), driver().version / 1000,
                    driver().version % 1000 / 10));
  check(result, "loading the code of " + name_);
}

Module::~Module() {
  if (handle_) driver().cuModuleUnload(handle_);
}

Module::Module(Module&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)) {}

Kernel Module::kernel(const char* name) const {
  CUfunction function = nullptr;
  check(driver().cuModuleGetFunction(&function, handle_, name),
        fmt::format("finding kernel {} in {}", name, name_));
  if (driver().cuFuncLoad)
    check(driver().cuFuncLoad(function), fmt::format("loading kernel {} of {}", name, name_));
  return Kernel(function, name);
}

Module::Symbol Module::symbol(const char* name) const {
  Symbol result;
  check(driver().cuModuleGetGlobal_v2(&result.ptr, &result.bytes, handle_, name),
        fmt::format("finding variable {} in {}", name, name_));
  return result;
}

}  // namespace ramp::gpu
