// SPDX-License-Identifier: Apache-2.0
#include "gpu/driver.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <vector>

#include "gpu/dynamic_library.hpp"

namespace ramp::gpu {
namespace {

constexpr int kOldestDriver = 12000;  // the first with cuLaunchKernelEx and tensor maps

struct Loaded {
  Driver table;
  std::exception_ptr error;
};

void resolve(const DynamicLibrary& library, Driver& table) {
  std::string missing;
#define RAMP_RESOLVE(name, parameters)                                        \
  table.name = reinterpret_cast<decltype(table.name)>(library.symbol(#name)); \
  if (!table.name) missing += (missing.empty() ? "" : ", ") + std::string(#name);
  RAMP_DRIVER_ENTRY_POINTS(RAMP_RESOLVE)
#undef RAMP_RESOLVE
#define RAMP_RESOLVE(name, parameters) \
  table.name = reinterpret_cast<decltype(table.name)>(library.symbol(#name));
  RAMP_DRIVER_OPTIONAL_ENTRY_POINTS(RAMP_RESOLVE)
#undef RAMP_RESOLVE
  if (!missing.empty())
    throw Error(fmt::format("the CUDA driver at {} is too old: it lacks {}", table.path, missing),
                "", "a driver of CUDA 12.0 or newer (525 or newer)",
                "install a newer NVIDIA driver; `ramp doctor` shows what is found");
}

Driver load() {
  const std::array<std::string, 2> names{"libcuda.so.1", "libcuda.so"};
  std::vector<std::string> failures;
  const std::optional<DynamicLibrary> library = DynamicLibrary::open(names, &failures);
  if (!library)
    throw Error("no CUDA driver on this machine (" + failures.front() + ")", "",
                "libcuda.so.1, which comes with the NVIDIA driver",
                "run this on a machine with an NVIDIA GPU, or in a container started with its GPUs "
                "(docker run --gpus all); verbs that need no GPU work here: see `ramp doctor`");
  Driver table;
  table.path = library->path();
  resolve(*library, table);
  const CUresult started = table.cuInit(0);
  if (started != cu::kSuccess) {
    const char* name = nullptr;
    table.cuGetErrorName(started, &name);
    throw Error(fmt::format("the CUDA driver at {} doesn't start: {} ({})", table.path,
                            name ? name : "error", started),
                "", "a driver whose kernel module is loaded and that sees a GPU",
                "check `nvidia-smi` and CUDA_VISIBLE_DEVICES, then `ramp doctor`");
  }
  table.cuDriverGetVersion(&table.version);
  if (table.version < kOldestDriver)
    throw Error("CUDA driver version", std::to_string(table.version), ">= 12000 (driver 525)",
                "install a newer NVIDIA driver");
  return table;
}

// Once a process; a failure is kept too, so that every caller hears the same reason.
const Loaded& loaded() {
  static const Loaded once = [] {
    Loaded result;
    try {
      result.table = load();
    } catch (...) {
      result.error = std::current_exception();
    }
    return result;
  }();
  return once;
}

}  // namespace

const Driver& driver() {
  const Loaded& once = loaded();
  if (once.error) std::rethrow_exception(once.error);
  return once.table;
}

bool driver_available(std::string* why) {
  try {
    driver();
    return true;
  } catch (const Error& e) {
    if (why) *why = e.what();
    return false;
  }
}

std::string result_text(CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver_available()) {
    driver().cuGetErrorName(result, &name);
    driver().cuGetErrorString(result, &text);
  }
  return fmt::format("{} ({}): {}", name ? name : "CUDA error", result, text ? text : "no text");
}

bool context_is_lost(CUresult result) {
  // Faults of a running kernel, and of the hardware: the driver answers every later call with the
  // same code.
  constexpr std::array kLost{214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721};
  return std::find(kLost.begin(), kLost.end(), result) != kLost.end();
}

void check(CUresult result, const char* what) {
  if (result == cu::kSuccess) return;
  std::string text = fmt::format("{}: {}", what, result_text(result));
  if (context_is_lost(result))
    text +=
        "; next: the GPU context is lost, start a new process (compute-sanitizer finds the access)";
  else if (result == cu::kOutOfMemory)
    text += "; next: free GPU memory (see nvidia-smi for who holds it) or take a smaller shape";
  throw CudaError(result, text);
}

}  // namespace ramp::gpu
