// SPDX-License-Identifier: Apache-2.0
// Clusters that share an item.
#include "tests/emulator/menu.hpp"

RAMP_EMULATE_MENU(kR8Split2,
                  {.rows = 8, .cols = 256, .stages = 6, .staging = 1, .dynamic = 1, .split = 2})
RAMP_EMULATE_MENU(kR16Split4,
                  {.rows = 16, .cols = 256, .stages = 5, .staging = 1, .dynamic = 1, .split = 4})
RAMP_EMULATE_MENU(
    kR16WideSplit2,
    {.rows = 16, .cols = 512, .stages = 4, .staging = 1, .dynamic = 0, .split = 2, .grouped = 1})
