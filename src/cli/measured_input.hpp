// SPDX-License-Identifier: Apache-2.0
// What the verbs that read measurements share: reading and checking them, the line that says where
// they were measured, and the flags of the menu.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "choice/measured.hpp"
#include "choice/menu.hpp"
#include "choice/plan.hpp"

namespace ramp::cli {

MeasuredSpace read_measured(const std::string& path);

// "olmoe on ep8, 8 experts a GPU: measured on NVIDIA H200 (driver ..., ...) on 2026-11-29, commit
// ...; routing ...". Simulated times are called that.
std::string measured_line(const MeasuredSpace& space);

nlohmann::json provenance_json(const MeasuredSpace& space);

// --menu N --least-gain PERCENT --occupancy CLASS --objective time|relative
struct MenuFlags {
  MenuOptions options;
  double least_gain = 100 * MenuOptions{}.least_gain;  // per cent
  std::string objective = "relative", mode = "fast";
  // kernel: of another's any gain counts, because its entries share no code.
  MenuOptions menu(const std::string& kernel = "") const;
};
void add_menu_flags(CLI::App& app, MenuFlags& flags);

// The plan of the configurations that run in flags.mode, which it then says.
Plan plan_of_mode(const MeasuredSpace& space, const MenuFlags& flags);

// JSON has no NaN: null.
nlohmann::json number_or_null(double value);

// "3.5", "-" for NaN; percent: of a fraction.
std::string percent(double fraction, int digits = 1);
std::string times(double ratio);

}  // namespace ramp::cli
