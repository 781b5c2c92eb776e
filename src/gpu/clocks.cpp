// SPDX-License-Identifier: Apache-2.0
#include "gpu/clocks.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "gpu/dynamic_library.hpp"

namespace ramp::gpu {
namespace {

using Device = void*;
constexpr int kOk = 0, kClockSm = 1, kClockMemory = 2, kSensorGpu = 0;

// X(symbol, parameters); all return nvmlReturn_t.
#define RAMP_NVML_ENTRY_POINTS(X)                                             \
  X(nvmlInit_v2, ())                                                          \
  X(nvmlSystemGetDriverVersion, (char*, unsigned))                            \
  X(nvmlDeviceGetHandleByUUID, (const char*, Device*))                        \
  X(nvmlDeviceGetClockInfo, (Device, int, unsigned*))                         \
  X(nvmlDeviceGetMaxClockInfo, (Device, int, unsigned*))                      \
  X(nvmlDeviceGetCurrentClocksThrottleReasons, (Device, unsigned long long*)) \
  X(nvmlDeviceGetPowerUsage, (Device, unsigned*))                             \
  X(nvmlDeviceGetEnforcedPowerLimit, (Device, unsigned*))                     \
  X(nvmlDeviceGetTemperature, (Device, int, unsigned*))

struct Nvml {
#define RAMP_DECLARE(symbol, parameters) int(*symbol) parameters = nullptr;
  RAMP_NVML_ENTRY_POINTS(RAMP_DECLARE)
#undef RAMP_DECLARE
  std::string path, why_not;
};

Nvml load() {
  Nvml table;
  const std::array<std::string, 1> names{"libnvidia-ml.so.1"};
  std::vector<std::string> failures;
  const std::optional<DynamicLibrary> library = DynamicLibrary::open(names, &failures);
  if (!library) {
    table.why_not = failures.front();
    return table;
  }
#define RAMP_RESOLVE(name, parameters)                                         \
  table.name = reinterpret_cast<decltype(table.name)>(library->symbol(#name)); \
  if (!table.name) table.why_not = library->path() + " lacks " #name;
  RAMP_NVML_ENTRY_POINTS(RAMP_RESOLVE)
#undef RAMP_RESOLVE
  if (!table.why_not.empty()) return table;
  if (const int status = table.nvmlInit_v2(); status != kOk) {
    table.why_not = fmt::format("{} doesn't start (NVML error {})", library->path(), status);
    return table;
  }
  table.path = library->path();
  return table;
}

const Nvml& nvml() {
  static const Nvml table = load();
  return table;
}

struct Reason {
  std::uint64_t bit;
  const char* name;
  bool slows;  // a fault of the moment, in contrast to an idle GPU or a clock that somebody chose
};
constexpr std::array<Reason, 9> kReasons{{{0x1, "idle", false},
                                          {0x2, "application clocks", false},
                                          {0x4, "power cap", true},
                                          {0x8, "hardware slowdown", true},
                                          {0x10, "sync boost", true},
                                          {0x20, "thermal slowdown (software)", true},
                                          {0x40, "thermal slowdown (hardware)", true},
                                          {0x80, "power brake", true},
                                          {0x100, "display clocks", false}}};

}  // namespace

bool ClockSample::throttled(int highest_mhz) const {
  if (highest_mhz > 0 && sm_mhz > 0 && sm_mhz >= (1 - kClockLoss) * highest_mhz) return false;
  for (const Reason& reason : kReasons)
    if (reason.slows && (reasons & reason.bit)) return true;
  return false;
}

std::string throttle_names(std::uint64_t reasons) {
  std::string text;
  const auto add = [&](const std::string& name) { text += (text.empty() ? "" : ", ") + name; };
  for (const Reason& reason : kReasons)
    if (reasons & reason.bit) {
      add(reason.name);
      reasons &= ~reason.bit;
    }
  if (reasons) add(fmt::format("unknown {:#x}", reasons));
  return text.empty() ? "none" : text;
}

Clocks::Clocks(const std::string& gpu_uuid) {
  if (nvml().path.empty()) {
    why_not_ = nvml().why_not;
    return;
  }
  Device device = nullptr;
  if (const int status = nvml().nvmlDeviceGetHandleByUUID(gpu_uuid.c_str(), &device);
      status != kOk) {
    why_not_ = fmt::format("NVML doesn't know GPU {} (error {})", gpu_uuid, status);
    return;
  }
  device_ = device;
  unsigned value = 0;
  if (nvml().nvmlDeviceGetMaxClockInfo(device_, kClockSm, &value) == kOk)
    max_sm_mhz_ = static_cast<int>(value);
  if (nvml().nvmlDeviceGetEnforcedPowerLimit(device_, &value) == kOk)
    power_limit_w_ = value / 1000.0;
}

std::optional<ClockSample> Clocks::sample() const {
  if (!device_) return std::nullopt;
  ClockSample sample;
  unsigned value = 0;
  if (nvml().nvmlDeviceGetClockInfo(device_, kClockSm, &value) != kOk) return std::nullopt;
  sample.sm_mhz = static_cast<int>(value);
  unsigned long long reasons = 0;
  if (nvml().nvmlDeviceGetCurrentClocksThrottleReasons(device_, &reasons) != kOk)
    return std::nullopt;
  sample.reasons = reasons;
  if (nvml().nvmlDeviceGetClockInfo(device_, kClockMemory, &value) == kOk)
    sample.memory_mhz = static_cast<int>(value);
  if (nvml().nvmlDeviceGetPowerUsage(device_, &value) == kOk) sample.power_w = value / 1000.0;
  if (nvml().nvmlDeviceGetTemperature(device_, kSensorGpu, &value) == kOk)
    sample.temperature_c = static_cast<int>(value);
  return sample;
}

std::string kernel_driver_version() {
  char text[96] = {};
  if (nvml().path.empty() || nvml().nvmlSystemGetDriverVersion(text, sizeof text) != kOk) return "";
  return text;
}

std::string nvml_path(std::string* why) {
  if (why) *why = nvml().why_not;
  return nvml().path;
}

}  // namespace ramp::gpu
