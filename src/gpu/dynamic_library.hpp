// SPDX-License-Identifier: Apache-2.0
// A shared library that is looked for when it is first needed.  ramp links nothing of CUDA: driver,
// NVRTC and NVML are opened by name, so one program starts on every machine and says what is
// missing only where it is used.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ramp::gpu {

// An open library; never closed, because NVIDIA's libraries don't survive being unloaded.
class DynamicLibrary {
 public:
  // The first candidate that opens.  A candidate with a slash is a file, one without is looked for
  // by the dynamic loader (ld.so cache, LD_LIBRARY_PATH).  Why each failed is appended to
  // `failures`.
  static std::optional<DynamicLibrary> open(std::span<const std::string> candidates,
                                            std::vector<std::string>* failures = nullptr);

  // The file that was really mapped.
  const std::string& path() const { return path_; }

  // nullptr when the library has no such symbol.
  void* symbol(const char* name) const;

 private:
  DynamicLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void* handle_;
  std::string path_;
};

}  // namespace ramp::gpu
