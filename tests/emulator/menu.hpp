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
void emulated_kernel(const FfnArgs& args, const void* w13, const void* w2) {
  const auto *map13 = static_cast<const TensorMap*>(w13), *map2 = static_cast<const TensorMap*>(w2);
  if constexpr (kMenu[0].topology == kF3)
    phased_ffn<kMenu, kEntries>(args, map13, map2);
  else
    ffn<kMenu, kEntries>(args, map13, map2);
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
