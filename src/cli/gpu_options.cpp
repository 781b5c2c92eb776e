// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_options.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "cli/model_options.hpp"
#include "gpu/driver.hpp"
#include "kernels/ffn/space.hpp"
#include "kernels/ffn/weight_maps.hpp"

namespace ramp::cli {
namespace {

int usable(int device) {
  std::string why;
  if (!gpu::driver_available(&why))
    throw Error(why +
                "; `ramp doctor` says what is missing, and loads, fit, eval and plan work here");
  if (device < 0 || device >= gpu::device_count())
    throw Error("--device", fmt::format("{}", device),
                fmt::format("0 .. {}", gpu::device_count() - 1), "`ramp doctor` lists the GPUs");
  const gpu::DeviceInfo info = gpu::device_info(device);
  if (!info.runs_sm_90a())
    throw Error(
        "GPU",
        fmt::format("{} (compute capability {}.{})", info.name, info.cc_major, info.cc_minor),
        "compute capability 9.0: the kernels are sm_90a code", "use an H100, H200 or GH200");
  return device;
}

}  // namespace

OpenGpu::OpenGpu(int device)
    : context(usable(device)),
      clocks(context.info().uuid),
      cache(std::make_unique<gpu::CubinCache>()) {}

std::vector<std::string> split_list(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  while (true) {
    const std::size_t end = text.find(separator, at);
    parts.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    if (end == std::string::npos) return parts;
    at = end + 1;
  }
}

LocalShape shape_of_text(const std::string& flag, const std::string& text) {
  const std::vector<int> numbers = parse_numbers(flag, text, 1 << 20);
  if (numbers.size() != 4)
    throw Error(flag, "'" + text + "'", "four numbers: E,d,h,k", "for example 8,2048,1024,8");
  const LocalShape shape{numbers[0], numbers[3], numbers[1], numbers[2]};
  require_ffn_shape(shape);
  return shape;
}

std::vector<FfnConfig> configs_of_labels(const std::string& flag, const std::string& text) {
  std::vector<FfnConfig> configs;
  for (const std::string& label : split_list(text)) {
    if (label.empty())
      throw Error(flag, "'" + text + "'", "labels between commas", "`ramp check --list` has them");
    configs.push_back(ffn_from_label(label));
  }
  return configs;
}

}  // namespace ramp::cli
