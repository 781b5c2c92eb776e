// SPDX-License-Identifier: Apache-2.0
// One configuration each: every knob at its ends.
#include "tests/emulator/menu.hpp"

RAMP_EMULATE_MENU(kR8, {.rows = 8, .cols = 256, .stages = 6, .staging = 2, .dynamic = 1})
RAMP_EMULATE_MENU(kR8Static, {.rows = 8, .cols = 256, .stages = 5, .staging = 1, .dynamic = 0})
RAMP_EMULATE_MENU(kR24Wide, {.rows = 24, .cols = 512, .stages = 4, .staging = 1, .dynamic = 1})
RAMP_EMULATE_MENU(kR64Grouped,
                  {.rows = 64, .cols = 256, .stages = 3, .staging = 1, .dynamic = 1, .grouped = 1})
