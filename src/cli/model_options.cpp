// SPDX-License-Identifier: Apache-2.0
#include "cli/model_options.hpp"

#include <charconv>

#include "base/error.hpp"

namespace ramp::cli {

Model ModelOptions::model() const {
  if (!config.empty()) return read_model_config(config, overrides);
  if (!name.empty()) {
    Model model = find_model(name);
    if (overrides.experts != 0) model.shape.experts = overrides.experts;
    if (overrides.top_k != 0) model.shape.top_k = overrides.top_k;
    if (overrides.hidden != 0) model.shape.hidden = overrides.hidden;
    if (overrides.intermediate != 0) model.shape.intermediate = overrides.intermediate;
    check_model(model);
    return model;
  }
  if (overrides.experts != 0) return model_from_overrides("custom", overrides);
  throw Error("model", "", "a catalog name, --config FILE, or --E --k --hidden --inter",
              "ramp catalog lists the names");
}

void add_model_options(CLI::App& app, ModelOptions& options, bool positional) {
  app.add_option(positional ? "model,--model" : "--model", options.name,
                 "a model of `ramp catalog`");
  app.add_option("--config", options.config, "a Hugging Face config.json");
  app.add_option("--E", options.overrides.experts, "routed experts, where the file does not say");
  app.add_option("--k", options.overrides.top_k, "experts a token");
  app.add_option("--hidden", options.overrides.hidden, "hidden size d");
  app.add_option("--inter", options.overrides.intermediate, "intermediate size h of an expert");
}

std::vector<int> parse_numbers(const std::string& flag, const std::string& text, int limit) {
  std::vector<int> out;
  auto refuse = [&](const std::string& part) -> Error {
    return Error(flag, "'" + part.substr(0, 40) + "'",
                 fmt::format("whole numbers up to {}, as 1,4,16 or 1-26", limit), "check the list");
  };
  auto number = [&](std::string_view part) {
    int value = 0;
    const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (status != std::errc() || end != part.data() + part.size() || value < 0 || value > limit)
      throw refuse(std::string(part));
    return value;
  };
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = std::string_view(text).substr(at, end - at);
    const std::size_t dash = part.find('-');
    if (dash == std::string_view::npos) {
      out.push_back(number(part));
    } else {
      const int low = number(part.substr(0, dash)), high = number(part.substr(dash + 1));
      if (high < low || high - low > 65536) throw refuse(std::string(part));
      for (int i = low; i <= high; ++i) out.push_back(i);
    }
    at = end + 1;
  }
  return out;
}

std::vector<double> parse_rates(const std::string& flag, const std::string& text) {
  std::vector<double> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    double value = 0;
    const auto [stop, status] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (status != std::errc() || stop != part.data() + part.size() || !(value > 0 && value <= 1e6))
      throw Error(flag, "'" + part.substr(0, 40) + "'", "numbers above 0, as 8,16,32",
                  "check the list");
    out.push_back(value);
    at = end + 1;
  }
  return out;
}

}  // namespace ramp::cli
