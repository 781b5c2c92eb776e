// SPDX-License-Identifier: Apache-2.0
// `ramp fit`: theta of Eq. 3 for every configuration (Section 3.1), and how well it predicts and
// ranks loads that it was not fitted on.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/error.hpp"
#include "base/whole_file.hpp"
#include "choice/fit_quality.hpp"
#include "choice/plan.hpp"
#include "choice/policies/ranked.hpp"
#include "cli/measured_input.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string measurements, out;
  int show = 20;
  bool as_json = false;
};

// On how many training loads each candidate is the model's pick: says which fits matter.
std::vector<int> wins(const Lesson& lesson) {
  std::vector<int> won(lesson.candidates.size(), 0);
  const Ranked ranked = rank_by_cost_model(lesson, lesson.learnable);
  for (const auto& load : lesson.loads) ++won[ranked.cheapest(load)];
  return won;
}

json fit_json(const Candidate& candidate, const CandidateFit& fit, int won) {
  json grid = json::array();
  for (int p = 0; p < candidate.grid.phases; ++p)
    grid.push_back({{"rows", candidate.grid.phase[p].rows},
                    {"col_tiles", candidate.grid.phase[p].col_tiles},
                    {"slots", candidate.grid.phase[p].slots}});
  json out = {{"label", candidate.label}, {"occupancy", candidate.occupancy}, {"grid", grid}};
  if (!fit.fitted) {
    out["why_not"] = fit.why_not;
    return out;
  }
  out["theta"] = {{"fixed_us", fit.fit.theta.fixed},
                  {"wave_us", fit.fit.theta.wave},
                  {"tile_us", fit.fit.theta.tile},
                  {"expert_us", fit.fit.theta.expert}};
  out["observations"] = fit.fit.observations;
  out["rank"] = fit.fit.rank;
  out["condition"] = fit.fit.condition;
  out["rms_error"] = fit.fit.rms_error;
  out["median_error"] = fit.fit.median_error;
  out["picked_on"] = won;
  return out;
}

json quality_json(const FitQuality& q) {
  return {{"held_out", q.held_out},
          {"median_error", number_or_null(q.median_error)},
          {"pick_error", number_or_null(q.pick_error)},
          {"rank_correlation",
           {{"all", number_or_null(q.rank_all)}, {"large", number_or_null(q.rank_large)}}},
          {"rank_of_two_runs",
           {{"all", number_or_null(q.twin_all)}, {"large", number_or_null(q.twin_large)}}},
          {"loads", {{"all", q.loads_all}, {"large", q.loads_large}}},
          {"large_batch", kLargeBatch},
          {"candidates_a_load", number_or_null(q.candidates_a_load)}};
}

std::string note(const CandidateFit& fit) {
  if (!fit.fitted) return fit.why_not;
  if (fit.fit.rank < 4)
    return fmt::format("only {} of 4 terms can be told apart on these loads", fit.fit.rank);
  return "";
}

void print(const Options& options, const MeasuredSpace& space, const Lesson& lesson,
           const std::vector<CandidateFit>& fits, const std::vector<int>& won,
           const FitQuality& q) {
  const auto fitted =
      std::count_if(fits.begin(), fits.end(), [](const auto& f) { return f.fitted; });
  fmt::print("{}\n{} of {} configurations fitted on {} training loads\n\n", measured_line(space),
             fitted, fits.size(), lesson.loads.size());
  std::vector<int> order(fits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return std::pair(-won[a], !fits[a].fitted) < std::pair(-won[b], !fits[b].fitted);
  });
  Table table({"<configuration", "picked on", "loads", "fixed us", "a wave", "a tile", "an expert",
               "error %", "<"});
  const int shown = std::min<int>(options.show, static_cast<int>(order.size()));
  for (int i = 0; i < shown; ++i) {
    const int c = order[i];
    const Theta& t = fits[c].fit.theta;
    if (fits[c].fitted)
      table.add({space.candidates[c].label, std::to_string(won[c]),
                 std::to_string(fits[c].fit.observations), fmt::format("{:.2f}", t.fixed),
                 fmt::format("{:.3f}", t.wave), fmt::format("{:.4f}", t.tile),
                 fmt::format("{:.3f}", t.expert), percent(fits[c].fit.median_error),
                 note(fits[c])});
    else
      table.add({space.candidates[c].label, "", "", "", "", "", "", "", note(fits[c])});
  }
  fmt::print("{}", table.text());
  if (shown < static_cast<int>(order.size()))
    fmt::print("  ... and {} more: --show {}\n", order.size() - shown, order.size());
  fmt::print("\nOn {}:\n", q.held_out ? "held-out passes"
                                      : "the training passes themselves (there are no others)");
  fmt::print(
      "  error of a prediction, median           {} %; of the configuration that is picked {} %\n",
      percent(q.median_error), percent(q.pick_error));
  fmt::print(
      "  rank correlation with the measured order {:.3f} (two runs of the same thing: {:.3f}), {} "
      "loads\n",
      q.rank_all, q.twin_all, q.loads_all);
  fmt::print("  ... of passes of {} tokens and more     {:.3f} ({:.3f}), {} loads\n", kLargeBatch,
             q.rank_large, q.twin_large, q.loads_large);
  fmt::print("  configurations ranked on a load, median {:.0f}\n", q.candidates_a_load);
}

void run(const Options& options) {
  const MeasuredSpace space = read_measured(options.measurements);
  const Lesson lesson = make_lesson(space, Role::kTrain, Half::kBoth);
  const std::vector<CandidateFit> fits = fit_candidates(lesson);
  const std::vector<int> won = wins(lesson);
  const FitQuality quality = fit_quality(space);

  json document = {{"format", "ramp-theta"},
                   {"version", 1},
                   {"measurements", space_hash(space)},
                   {"provenance", provenance_json(space)},
                   {"quality", quality_json(quality)},
                   {"fits", json::array()}};
  for (size_t c = 0; c < fits.size(); ++c)
    document["fits"].push_back(fit_json(space.candidates[c], fits[c], won[c]));
  const auto text = [&] {
    return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  };
  if (!options.out.empty()) write_whole_file(options.out, text());
  if (options.as_json)
    fmt::print("{}", text());
  else
    print(options, space, lesson, fits, won, quality);
}

}  // namespace

void add_fit(CLI::App& app) {
  CLI::App* verb =
      app.add_subcommand("fit", "Fit the cost model to measurements and say how well it ranks");
  auto options = std::make_shared<Options>();
  verb->add_option("measurements", options->measurements, "a .rmeas of `ramp profile`")->required();
  verb->add_option("-o,--out", options->out,
                   "write the coefficients of every configuration as JSON");
  verb->add_option("--show", options->show, "configurations in the table")->capture_default_str();
  verb->add_flag("--json", options->as_json, "for machines");
  verb->footer(
      "Predicted us of a configuration = fixed + waves x 'a wave' + tiles x 'a tile' + active "
      "experts x 'an expert'\n"
      "(Eq. 3).  Fitted on training passes; the figures below the table come from held-out ones.\n"
      "Example:\n"
      "  ramp fit olmoe_ep8.rmeas -o theta.json");
  verb->callback([options] { run(*options); });
}

}  // namespace ramp::cli
