// SPDX-License-Identifier: Apache-2.0
// Compiled code on the GPU: a module is one loaded cubin, a kernel one of its entry points.
#pragma once

#include <array>
#include <span>
#include <string>

#include "gpu/driver.hpp"

namespace ramp::gpu {

struct LaunchConfig {
  std::array<unsigned, 3> grid{1, 1, 1};
  std::array<unsigned, 3> block{1, 1, 1};
  unsigned smem = 0;  // dynamic shared memory, bytes
  CUstream stream = nullptr;
  // Programmatic dependent launch: the kernel may start before its predecessor in the stream has
  // ended, and must execute griddepcontrol.wait before it touches anything that one wrote.
  bool programmatic = false;
  int cluster = 0;  // blocks a cluster along x; 0: no clusters
};

struct KernelAttributes {
  int registers = 0;    // a thread, as allocated at launch
  int local_bytes = 0;  // a thread: stack and spills
  int static_smem = 0;  // bytes a block
  int max_threads = 0;  // a block
  int max_dynamic_smem = 0;
  int constant_bytes = 0;
};

// Valid as long as its module.
class Kernel {
 public:
  Kernel(CUfunction function, std::string name) : function_(function), name_(std::move(name)) {}

  // Once after loading, for more than 48 KiB of dynamic shared memory.
  void set_max_dynamic_smem(int bytes);
  KernelAttributes attributes() const;
  // Blocks of `threads` threads and `smem` dynamic bytes that one SM holds at the same time.
  int occupancy(int threads, std::size_t smem) const;

  // Clusters of such a launch that the whole GPU holds at the same time: fewer than its SMs would
  // make, because a cluster stays inside a GPC, and GPCs have SMs to spare or too few.
  int resident_clusters(const LaunchConfig& config) const;

  // args: one pointer a parameter, to a value of exactly the parameter's type.
  void launch(const LaunchConfig& config, void** args) const;
  // The same from values.  No conversion happens: their types must be the kernel's parameter types.
  template <class... Args>
  void operator()(const LaunchConfig& config, const Args&... args) const {
    void* pointers[sizeof...(args) + 1] = {const_cast<void*>(static_cast<const void*>(&args))...,
                                           nullptr};
    launch(config, pointers);
  }

  const std::string& name() const { return name_; }
  CUfunction handle() const { return function_; }

 private:
  int attribute(int which) const;
  CUfunction function_;
  std::string name_;
};

class Module {
 public:
  // Loads into the current context; `name` is for error texts.
  Module(std::span<const char> cubin, std::string name);
  ~Module();
  Module(Module&& other) noexcept;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // The entry point, its code already on the GPU: nothing is loaded lazily inside a capture.
  Kernel kernel(const char* name) const;

  struct Symbol {
    CUdeviceptr ptr = 0;
    std::size_t bytes = 0;
  };
  Symbol symbol(const char* name) const;  // a __device__ or __constant__ variable

 private:
  CUmodule handle_ = nullptr;
  std::string name_;
};

}  // namespace ramp::gpu
