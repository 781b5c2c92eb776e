// SPDX-License-Identifier: Apache-2.0
// GPUs, the context that work on one happens in, and memory on it.  Everything here needs the
// driver; constructors throw Error where there is none, destructors never throw.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/driver.hpp"

namespace ramp::gpu {

struct DeviceInfo {
  int ordinal = 0;   // among the visible GPUs
  std::string name;  // "NVIDIA H200"
  std::string uuid;  // "GPU-5fd4f087-...", as NVML and nvidia-smi write it
  int cc_major = 0, cc_minor = 0;
  int sms = 0;
  int smem_per_block_optin = 0;  // bytes of dynamic shared memory that one block can ask for
  int smem_per_sm = 0, registers_per_sm = 0, threads_per_sm = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  int clock_mhz = 0;  // the SM's highest
  int memory_clock_mhz = 0, memory_bus_bits = 0;
  int driver_version = 0;  // 13000 = CUDA 13.0

  // The wgmma kernels are compiled for sm_90a, which runs on compute capability 9.0 and on nothing
  // else.
  bool runs_sm_90a() const { return cc_major == 9 && cc_minor == 0; }
};

int device_count();
DeviceInfo device_info(int ordinal);

// Shares the device's primary context with everything else in the process (PyTorch too) and keeps
// it alive.
class Context {
 public:
  explicit Context(int ordinal = 0);  // retains and makes current
  ~Context();
  Context(Context&& other) noexcept;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  void make_current() const;  // for the calling thread
  void synchronize() const;   // waits for all work of the context; reports faults of kernels
  const DeviceInfo& info() const { return info_; }
  CUcontext handle() const { return handle_; }

 private:
  DeviceInfo info_;
  CUcontext handle_ = nullptr;
};

// Makes a context current for a scope and puts back what was current before: for calls from a
// foreign thread.
class ContextScope {
 public:
  explicit ContextScope(CUcontext context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
};

// Device memory.  Copies check their bounds and are complete when they return, for every stream;
// the *_async ones are ordered in a stream and can be captured.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes);  // contents undefined; 0 bytes: ptr() is 0
  template <class T>
  static Buffer of(const std::vector<T>& values) {
    Buffer buffer(values.size() * sizeof(T));
    buffer.upload(values.data(), buffer.bytes());
    return buffer;
  }
  ~Buffer() { release(); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }

  std::size_t bytes() const { return bytes_; }
  CUdeviceptr ptr() const { return ptr_; }
  CUdeviceptr ptr(std::size_t offset) const { return ptr_ + offset; }

  void upload(const void* source, std::size_t bytes, std::size_t offset = 0);
  void download(void* target, std::size_t bytes, std::size_t offset = 0) const;
  void fill(unsigned char byte);
  void upload_async(const void* source, std::size_t bytes, std::size_t offset, CUstream stream);
  void download_async(void* target, std::size_t bytes, std::size_t offset, CUstream stream) const;
  void fill_async(unsigned char byte, CUstream stream);

  // The whole buffer as values of T (a rest that is no whole T is left out).
  template <class T>
  std::vector<T> values() const {
    std::vector<T> result(bytes_ / sizeof(T));
    download(result.data(), result.size() * sizeof(T));
    return result;
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(ptr_, other.ptr_);
    std::swap(bytes_, other.bytes_);
  }
  void release() noexcept;
  void check_range(const char* what, std::size_t bytes, std::size_t offset) const;
  CUdeviceptr ptr_ = 0;
  std::size_t bytes_ = 0;
};

// Page-locked host memory: copies from and to it are really asynchronous.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(std::size_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

struct MemoryInfo {
  std::size_t free_bytes = 0, total_bytes = 0;
};
MemoryInfo memory_info();  // of the current context's device

}  // namespace ramp::gpu
