// SPDX-License-Identifier: Apache-2.0
// Polymorphic kernels: the entry is read from memory after the first weights were asked for.
#include "tests/emulator/menu.hpp"

RAMP_EMULATE_MENU(kSmallAndTall, {.rows = 8, .cols = 256, .stages = 6, .staging = 2, .dynamic = 1},
                  {.rows = 32, .cols = 256, .stages = 4, .staging = 1, .dynamic = 0},
                  {.rows = 64, .cols = 256, .stages = 3, .staging = 1, .dynamic = 1, .grouped = 1})

RAMP_EMULATE_MENU(kSmallAndSmall, {.rows = 8, .cols = 256, .stages = 6, .staging = 2, .dynamic = 1},
                  {.rows = 16, .cols = 256, .stages = 5, .staging = 2, .dynamic = 0})
