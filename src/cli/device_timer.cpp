// SPDX-License-Identifier: Apache-2.0
#include "cli/device_timer.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "cli/gpu_timer.hpp"
#include "gpu/driver.hpp"

namespace ramp::cli {

std::unique_ptr<KernelTimer> open_device_timer(int device) {
  std::string why;
  if (!gpu::driver_available(&why)) throw Error(fmt::format("--timer gpu:{}: {}", device, why));
  return make_gpu_timer(device);
}

}  // namespace ramp::cli
