// SPDX-License-Identifier: Apache-2.0
#include "cli/device_timer.hpp"

#include "base/error.hpp"
#include "gpu/device.hpp"
#include "gpu/driver.hpp"

namespace ramp::cli {

std::unique_ptr<KernelTimer> open_device_timer(int device) {
  std::string why;
  if (!gpu::driver_available(&why))
    throw Error("--timer gpu:" + std::to_string(device), why,
                "a GPU of compute capability 9.0 and its driver",
                "measure where there is one (`ramp doctor` says what is missing); the verbs fit, "
                "eval and plan work on its file anywhere");
  throw Error("--timer gpu:" + std::to_string(device), gpu::device_info(device).name,
              "a kernel family that is timed on it", "use a build that has one");
}

}  // namespace ramp::cli
