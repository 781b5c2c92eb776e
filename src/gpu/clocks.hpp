// SPDX-License-Identifier: Apache-2.0
// What the GPU's clock does while something is timed, from NVML (the library of nvidia-smi), opened
// when it is first needed and only read from.  Without NVML there are no samples and nothing else
// is lost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ramp::gpu {

struct ClockSample {
  int sm_mhz = 0;
  int memory_mhz = 0;
  int temperature_c = 0;
  double power_w = 0;
  std::uint64_t reasons = 0;  // why the clock isn't at its highest; see throttle_names

  // Whether heat, power or the hardware holds the clock down so far that a time says nothing about
  // the kernel: more than kClockLoss below `highest_mhz`.  A power cap that takes 1 % of the clock
  // is the normal state of a busy GPU; without a known highest clock any such reason counts.
  static constexpr double kClockLoss = 0.05;
  bool throttled(int highest_mhz) const;
};

// "power cap, thermal slowdown (software)"; "none" for 0.
std::string throttle_names(std::uint64_t reasons);

// The clocks of one GPU.
class Clocks {
 public:
  explicit Clocks(const std::string& gpu_uuid);  // DeviceInfo::uuid; never throws for want of NVML

  bool available() const { return device_ != nullptr; }
  const std::string& why_not() const { return why_not_; }
  // Nothing when NVML isn't there or refuses.  Takes some 10 us to some ms: not between two
  // launches that are timed.
  std::optional<ClockSample> sample() const;
  int max_sm_mhz() const { return max_sm_mhz_; }
  double power_limit_w() const { return power_limit_w_; }

 private:
  void* device_ = nullptr;
  std::string why_not_;
  int max_sm_mhz_ = 0;
  double power_limit_w_ = 0;
};

// "580.159.04", empty without NVML.
std::string kernel_driver_version();

// The file that NVML was opened from; empty without, and then `why` has the reason.
std::string nvml_path(std::string* why = nullptr);

}  // namespace ramp::gpu
