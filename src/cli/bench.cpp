// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs.hpp"
namespace ramp::cli {
void add_bench(CLI::App&) {}
}  // namespace ramp::cli
