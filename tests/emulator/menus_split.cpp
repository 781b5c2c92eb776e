// SPDX-License-Identifier: Apache-2.0
// Clusters that share an item.
#include "tests/emulator/menu.hpp"

RAMP_EMULATE_MENU(kR8Split2,
                  {.rows = 8, .cols = 256, .stages = 6, .staging = 1, .dynamic = 1, .split = 2})
RAMP_EMULATE_MENU(kR16Split4,
                  {.rows = 16, .cols = 256, .stages = 4, .staging = 1, .dynamic = 1, .split = 4})
RAMP_EMULATE_MENU(
    kR24Split2,
    {.rows = 24, .cols = 256, .stages = 4, .staging = 2, .dynamic = 0, .split = 2, .grouped = 1})
RAMP_EMULATE_MENU(
    kR40Split2,
    {.rows = 40, .cols = 256, .stages = 3, .staging = 1, .dynamic = 1, .split = 2, .grouped = 1})
