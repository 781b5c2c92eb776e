// SPDX-License-Identifier: Apache-2.0
// The project's kernels as emulated launches.  Menus are templates, so each one that is emulated is
// compiled by name, in menus_*.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/ffn/config.h"
#include "kernels/prepare/state.h"
#include "tests/emulator/machine.hpp"

namespace ramp::emulator {

// Tensor maps, as the emulated copy engine has them; F1 looks at the first two.
struct Maps {
  const void *w13, *w2, *rows, *middle;
};

struct Menu {
  using Kernel = void (*)(const FfnArgs&, const Maps&);
  std::vector<FfnConfig> configs;
  Kernel kernel;
  std::function<char*()> shared;
};

// Adds a menu to those that can be emulated; for static initialisers.
bool add_menu(Menu menu);
// By the labels of its entries, joined with "+"; throws std::out_of_range with what there is.
const Menu& find_menu(const std::string& labels);
std::vector<std::string> menu_labels();

Launch ffn_launch(const Menu& menu, const FfnArgs& args, const Maps& maps, int blocks);
// One launch to three.
std::vector<Launch> prepare_launches(const PrepareArgs& args, int sms);
Launch combine_launch(const CombineArgs& args, int sms);

}  // namespace ramp::emulator
