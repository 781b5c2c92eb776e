// SPDX-License-Identifier: Apache-2.0
#include "cli/measured_input.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "choice/tune.hpp"
#include "kernels/ffn/program.hpp"
#include "kernels/ffn/space.hpp"
#include "kernels/prepare/state.h"
#include "lab/measurements.hpp"
#include "lab/simulated_timer.hpp"
#include "problem/calibration.hpp"
#include "problem/catalog.hpp"
#include "runtime/prefill.hpp"

namespace ramp::cli {
namespace {

// None for other kernels' configurations, which tables bring in, and for those of an older space.
std::optional<FfnConfig> config_of(const Candidate& candidate) {
  try {
    return ffn_from_knobs(candidate.knobs);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// What ramp's own configurations lose in a kernel of several: weights asked for ahead, in us of the
// memory's rate, and, as measured (docs/kernels.md), cold code; in F3, whose entries share the
// tallest one's code, nothing but what the lower ones miss of their deeper ring.
float company_us(const FfnConfig& c) {
  if (c.topology != kF3) return 0.3f;
  if (c.rows > kShortRows) return 0;
  return c.split > 1 ? 3.5f : 1.5f;
}

void say_company(MeasuredSpace& space) {
  const GpuSpec& gpu = gpu_like(space.provenance.gpu);
  const double us_a_unit = prefill_pace_ns(gpu.sms, gpu.stream_tbps) / 1e3;
  for (Candidate& c : space.candidates) {
    const std::optional<FfnConfig> config = config_of(c);
    if (!config) continue;
    const int units = default_prefill(1, deepest_prefill({&*config, 1}, space.shape.hidden));
    c.ahead_us = static_cast<float>(units * us_a_unit);
    c.company_us = company_us(*config);
  }
}

}  // namespace

using nlohmann::json;

MeasuredSpace read_measured(const std::string& path) {
  MeasuredSpace space = load_measurements(path);
  check_space(space);
  if (space.provenance.kernel.empty()) say_company(space);
  return space;
}

std::string measured_line(const MeasuredSpace& space) {
  const Provenance& p = space.provenance;
  const std::string note = calibration_note(p.routing);
  const auto known = [](const std::string& text) { return text.empty() ? "unknown" : text; };
  return fmt::format(
      "{}{} on {}, {} experts a GPU (d {}, h {}, top {}): {} {} on {} (driver {}, {}), commit {}; "
      "routing {}{}",
      p.kernel.empty() ? "" : p.kernel + ": ", known(p.model), known(p.layout), space.shape.experts,
      space.shape.hidden, space.shape.intermediate, space.shape.top_k,
      p.gpu == kSimulatedGpu ? "SIMULATED, not measured," : "measured on", known(p.gpu),
      known(p.date), known(p.driver), known(p.toolkit), known(p.commit), known(p.routing),
      note.empty() ? "" : "\n" + note);
}

json provenance_json(const MeasuredSpace& space) {
  const Provenance& p = space.provenance;
  return {{"model", p.model},
          {"layout", p.layout},
          {"kernel", p.kernel.empty() ? json(nullptr) : json(p.kernel)},
          {"gpus", space.gpus},
          {"shape",
           {{"experts", space.shape.experts},
            {"top_k", space.shape.top_k},
            {"hidden", space.shape.hidden},
            {"intermediate", space.shape.intermediate}}},
          {"routing", p.routing},
          {"calibration_scores", calibration_note(p.routing)},
          {"gpu", p.gpu},
          {"driver", p.driver},
          {"toolkit", p.toolkit},
          {"commit", p.commit},
          {"date", p.date},
          {"sources", p.sources},
          {"how", p.how}};
}

MenuOptions MenuFlags::menu(const std::string& kernel) const {
  MenuOptions out = options;
  out.least_gain = kernel.empty() ? least_gain / 100 : 0;
  out.objective = objective == "relative" ? MenuObjective::kRelative : MenuObjective::kTime;
  return out;
}

void add_menu_flags(CLI::App& app, MenuFlags& flags) {
  app.add_option("--menu", flags.options.entries, "entries of the menu")
      ->check(CLI::Range(1, kMaxMenuEntries))
      ->capture_default_str();
  app.add_option("--least-gain", flags.least_gain,
                 "per cent that a further entry must bring: each makes the others start later")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--menus", flags.options.menus,
                 "menus by pass size, at most: a small pass's graph may hold another kernel")
      ->check(CLI::Range(1, kMostMenus))
      ->capture_default_str();
  app.add_option("--occupancy", flags.options.occupancy,
                 "occupancy class of the menu; default: the best one");
  app.add_option(
         "--objective", flags.objective,
         "what the menu minimises over the training passes: their time, or every pass alike")
      ->check(CLI::IsMember({"time", "relative"}))
      ->capture_default_str();
  app.add_option("--mode", flags.mode,
                 "how a token's results are added: fast (in any order), or ordered (the same bits "
                 "always; entries of family f3)")
      ->check(CLI::IsMember({"fast", "ordered"}))
      ->capture_default_str();
}

Plan plan_of_mode(const MeasuredSpace& space, const MenuFlags& flags) {
  if (flags.mode == "fast") return tune_from(space, flags.menu(space.provenance.kernel));
  MeasuredSpace ordered = space;
  ordered.candidates.clear(), ordered.samples.clear();
  for (std::size_t c = 0; c < space.candidates.size(); ++c) {
    const std::optional<FfnConfig> config = config_of(space.candidates[c]);
    if (!config || !runs_ordered(*config)) continue;
    ordered.candidates.push_back(space.candidates[c]);
    ordered.samples.push_back(space.samples[c]);
  }
  if (ordered.candidates.empty())
    throw Error("--mode", "ordered", "measurements of configurations of family f3",
                "measure again with `ramp profile`, or leave it out");
  Plan plan = tune_from(ordered, flags.menu(space.provenance.kernel));
  plan.mode = flags.mode;
  for (SizedPlan& sized : plan.smaller) sized.plan.mode = flags.mode;
  return plan;
}

json number_or_null(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

std::string percent(double fraction, int digits) {
  return std::isfinite(fraction) ? fmt::format("{:.{}f}", 100 * fraction, digits) : "-";
}

std::string times(double ratio) {
  return std::isfinite(ratio) ? fmt::format("{:.3f}x", ratio) : "-";
}

}  // namespace ramp::cli
