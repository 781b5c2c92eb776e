// SPDX-License-Identifier: Apache-2.0
// RAMP_EMULATE_MENU(name, {.rows = 8, ...}, ...): compiles `ffn` for a menu, as
// ffn_source does for the compiler.  One file may hold many menus.
#pragma once

#include "kernels/ffn/kernel.cuh"
#include "kernels/ffn/phased/kernel.cuh"
#include "tests/emulator/device_code.hpp"

namespace ramp {
extern thread_local char dynamic_shared[];  // device_code.cpp

template <auto& kMenu, int kEntries>
void emulated_kernel(const FfnArgs& args, const emulator::Maps& maps) {
  const auto at = [](const void* map) { return static_cast<const TensorMap*>(map); };
  if constexpr (kMenu[0].topology == kF3)
    phased_ffn<kMenu, kEntries>(args, at(maps.w13), at(maps.w2), at(maps.rows), at(maps.middle));
  else
    ffn<kMenu, kEntries>(args, at(maps.w13), at(maps.w2));
}
}  // namespace ramp

#define RAMP_EMULATE_MENU(name, ...)                                                \
  namespace ramp {                                                                  \
  constexpr FfnConfig name[] = {__VA_ARGS__};                                       \
  static const bool name##_added =                                                  \
      emulator::add_menu({{std::begin(name), std::end(name)},                       \
                          emulated_kernel<name, static_cast<int>(std::size(name))>, \
                          [] { return dynamic_shared; }});                          \
  }
