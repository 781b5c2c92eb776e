// SPDX-License-Identifier: Apache-2.0
// Two phases, one after the other in one launch.
#include "tests/emulator/menu.hpp"

RAMP_EMULATE_MENU(kPhased64, {.rows = 64, .stages = 4, .staging = 1, .topology = kF3})
RAMP_EMULATE_MENU(
    kPhased128Static,
    {.rows = 128, .stages = 3, .staging = 1, .dynamic = 0, .grouped = 1, .topology = kF3})
RAMP_EMULATE_MENU(kPhasedBoth,
                  {.rows = 64, .stages = 4, .staging = 1, .grouped = 1, .topology = kF3},
                  {.rows = 128, .stages = 3, .staging = 1, .topology = kF3})
RAMP_EMULATE_MENU(kPhasedPairs, {.rows = 64,
                                 .stages = 4,
                                 .staging = 1,
                                 .dynamic = 1,
                                 .split = 2,
                                 .grouped = 1,
                                 .topology = kF3})
RAMP_EMULATE_MENU(kPhasedPairsBoth,
                  {.rows = 128,
                   .stages = 3,
                   .staging = 1,
                   .dynamic = 1,
                   .split = 2,
                   .grouped = 1,
                   .topology = kF3},
                  {.rows = 64,
                   .stages = 3,
                   .staging = 1,
                   .dynamic = 1,
                   .split = 2,
                   .grouped = 1,
                   .topology = kF3})
