// SPDX-License-Identifier: Apache-2.0
// The flags that name a model and a layout, the same in every verb that needs them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "problem/layout.hpp"
#include "problem/model_config.hpp"

namespace ramp::cli {

struct ModelOptions {
  std::string name;    // catalog name
  std::string config;  // config.json
  ModelOverrides overrides;

  bool given() const { return !name.empty() || !config.empty() || overrides.experts != 0; }
  // Throws Error where nothing, or not enough, names a model.
  Model model() const;
};

// --model NAME --config FILE --E --k --hidden --inter.  positional: the name is an argument, not a
// flag.
void add_model_options(CLI::App& app, ModelOptions& options, bool positional = false);

// "8,16.5" on the command line: numbers above 0, at most 1e6; and "16,64", whole numbers, with
// ranges "1-26" where they make sense.
std::vector<double> parse_rates(const std::string& flag, const std::string& text);
std::vector<int> parse_numbers(const std::string& flag, const std::string& text, int limit);

}  // namespace ramp::cli
