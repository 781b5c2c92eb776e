// SPDX-License-Identifier: Apache-2.0
// Figure 6: the cost model on loads that it was not fitted on.  (a) what each term contributes to
// one configuration's time, (b) predicted against measured, every configuration, (c) each tile
// height on the least and the most loaded GPU of one pass.
#include "lab/paper/figure6.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "choice/fit.hpp"
#include "choice/fit_quality.hpp"
#include "lab/paper/compared.hpp"
#include "lab/paper/results.hpp"
#include "problem/imbalance.hpp"

namespace ramp {
namespace {

// Fitted on one half of the samples, held against the other.
struct Fitted {
  const MeasuredSpace& space;
  std::vector<CandidateFit> fits;
  TimeTable us;
  std::vector<int> loads;  // of held-out passes, ascending in pairs

  Features features_of(int candidate, int load) const {
    const std::vector<int>& counts = space.loads[load];
    return features(space.candidates[candidate].grid, counts.data(),
                    static_cast<int>(counts.size()));
  }
  double predicted(int candidate, int load) const {
    return predict_us(fits[candidate].fit.theta, features_of(candidate, load));
  }
  bool usable(int candidate, int load) const {
    return fits[candidate].fitted && is_time(us[candidate][load]);
  }
};

Fitted fitted_on(const MeasuredSpace& space) {
  Fitted f{space,
           fit_candidates(make_lesson(space, Role::kTrain, Half::kFirst)),
           median_times(space, Half::kSecond),
           {}};
  std::set<int> seen;
  for (const MeasuredPass& pass : space.passes)
    if (pass.role == Role::kTest)
      for (const int load : pass.load_of_gpu)
        if (load >= 0) seen.insert(load);
  f.loads.assign(seen.begin(), seen.end());
  std::stable_sort(f.loads.begin(), f.loads.end(), [&](int a, int b) {
    return pairs_of(space.loads[a]) < pairs_of(space.loads[b]);
  });
  return f;
}

// The one that was timed on the most held-out loads; of these the fastest.
int shown_candidate(const Fitted& f) {
  int best = -1, most = 0;
  double best_log = 0;
  for (int c = 0; c < static_cast<int>(f.fits.size()); ++c) {
    int timed = 0;
    double log = 0;
    for (const int load : f.loads)
      if (f.usable(c, load)) ++timed, log += std::log(f.us[c][load]);
    if (timed > most || (timed == most && timed > 0 && log < best_log))
      best = c, most = timed, best_log = log;
  }
  return best;
}

Panel terms_panel(const Fitted& f, int candidate) {
  Panel panel{"(a) terms of " + f.space.candidates[candidate].label,
              "token-expert pairs of the GPU",
              "us",
              true,
              true,
              {},
              {},
              {}};
  struct Term {
    const char* name;
    double (*of)(const Theta&, const Features&);
  };
  constexpr Term kTerms[] = {
      {"fixed", [](const Theta& t, const Features&) -> double { return t.fixed; }},
      {"active experts",
       [](const Theta& t, const Features& x) -> double { return t.expert * x.active; }},
      {"tiles", [](const Theta& t, const Features& x) -> double { return t.tile * x.tiles; }},
      {"waves", [](const Theta& t, const Features& x) -> double { return t.wave * x.waves; }}};
  std::vector<double> x, below, measured, floor;
  std::vector<int> loads;
  for (const int load : f.loads)
    if (f.usable(candidate, load)) loads.push_back(load);
  for (const int load : loads) {
    x.push_back(static_cast<double>(pairs_of(f.space.loads[load])));
    measured.push_back(f.us[candidate][load]);
    floor.push_back(floor_us(f.space.shape, active_experts(f.space.loads[load]),
                             pairs_of(f.space.loads[load])));
  }
  // On a logarithmic axis nothing stands on 0.
  below.assign(loads.size(), 1.0);
  bool is_first = true;
  for (const Term& term : kTerms) {
    Series series{term.name, Series::Kind::kArea, x, {}, below, {}};
    for (size_t i = 0; i < loads.size(); ++i) {
      const double us = term.of(f.fits[candidate].fit.theta, f.features_of(candidate, loads[i]));
      series.y.push_back((is_first ? 0 : below[i]) + us);
    }
    for (size_t i = 0; i < loads.size(); ++i) series.y[i] = std::max(series.y[i], series.low[i]);
    below = series.y;
    is_first = false;
    panel.series.push_back(std::move(series));
  }
  panel.series.push_back({"measured", Series::Kind::kPoints, x, measured, {}, {}});
  panel.series.push_back({"floor, formula", Series::Kind::kLine, x, floor, {}, {}});
  return panel;
}

Panel scatter_panel(const Fitted& f) {
  Panel panel{"(b) every configuration, held-out loads",
              "measured us",
              "predicted us",
              true,
              true,
              {},
              {},
              {}};
  Series points{"a configuration on a load", Series::Kind::kPoints, {}, {}, {}, {}};
  for (int c = 0; c < static_cast<int>(f.fits.size()); ++c)
    for (const int load : f.loads)
      if (f.usable(c, load)) {
        points.x.push_back(f.us[c][load]);
        points.y.push_back(f.predicted(c, load));
      }
  const auto [low, high] = std::minmax_element(points.x.begin(), points.x.end());
  Series exact{"exact", Series::Kind::kLine, {*low, *high}, {*low, *high}, {}, {}};
  panel.series = {std::move(points), std::move(exact)};
  return panel;
}

// Of each tile height, its fastest configuration, measured and by the model.
struct ByHeight {
  std::map<int, double> measured, predicted;
  int picked = 0;  // the height that the model picks
};

ByHeight by_height(const Fitted& f, int load) {
  ByHeight out;
  double best = INFINITY;
  for (int c = 0; c < static_cast<int>(f.fits.size()); ++c) {
    if (!f.usable(c, load)) continue;
    const int rows = f.space.candidates[c].grid.phase[0].rows;
    const double us = f.us[c][load], predicted = f.predicted(c, load);
    const auto keep_least = [](std::map<int, double>& to, int key, double value) {
      const auto [at, is_new] = to.emplace(key, value);
      if (!is_new) at->second = std::min(at->second, value);
    };
    keep_least(out.measured, rows, us);
    keep_least(out.predicted, rows, predicted);
    if (predicted < best) best = predicted, out.picked = rows;
  }
  return out;
}

// The least even large pass whose least and most loaded GPUs were both timed with several heights.
struct Extremes {
  int tokens = 0, least = -1, most = -1;  // loads
};

Extremes extremes_of(const Fitted& f, int least_tokens) {
  Extremes best;
  double uneven = 0;
  for (const MeasuredPass& pass : f.space.passes) {
    if (pass.role != Role::kTest || pass.tokens < least_tokens) continue;
    int least = -1, most = -1;
    for (const int load : pass.load_of_gpu) {
      if (load < 0) continue;
      const long long pairs = pairs_of(f.space.loads[load]);
      if (least < 0 || pairs < pairs_of(f.space.loads[least])) least = load;
      if (most < 0 || pairs > pairs_of(f.space.loads[most])) most = load;
    }
    if (least < 0 || by_height(f, least).measured.size() < 3 ||
        by_height(f, most).measured.size() < 3)
      continue;
    const double ratio = static_cast<double>(pairs_of(f.space.loads[most])) /
                         static_cast<double>(pairs_of(f.space.loads[least]));
    if (ratio > uneven) uneven = ratio, best = {pass.tokens, least, most};
  }
  return best;
}

void add_heights(Panel& panel, const std::string& gpu, const ByHeight& heights) {
  const auto least = [](const std::map<int, double>& of) {
    double value = INFINITY;
    for (const auto& [rows, us] : of) value = std::min(value, us);
    return value;
  };
  Series measured{gpu + ", measured", Series::Kind::kPoints, {}, {}, {}, {}};
  Series predicted{gpu + ", predicted", Series::Kind::kLine, {}, {}, {}, {}};
  Series pick{gpu + ", picked", Series::Kind::kStars, {}, {}, {}, {}};
  for (const auto& [rows, us] : heights.measured) {
    measured.x.push_back(rows), measured.y.push_back(us / least(heights.measured));
    if (rows == heights.picked) pick.x = {static_cast<double>(rows)}, pick.y = {measured.y.back()};
  }
  for (const auto& [rows, us] : heights.predicted)
    predicted.x.push_back(rows), predicted.y.push_back(us / least(heights.predicted));
  panel.series.insert(panel.series.end(), {measured, predicted, pick});
}

struct Shown {
  std::vector<Panel> panels;
  bool has_heights = false;
  ByHeight least, most;  // of the pass of panel (c)
};

// Throws Error where no held-out load was timed.
Shown shown_of(const MeasuredSpace& space, const std::string& name, int large_batch) {
  const Fitted f = fitted_on(space);
  const int candidate = shown_candidate(f);
  if (candidate < 0)
    throw Error("held-out loads", name, "timed ones", "profile with held-out requests");
  Shown out{{terms_panel(f, candidate), scatter_panel(f)}, false, {}, {}};
  const Extremes pass = extremes_of(f, large_batch);
  if (pass.least < 0) return out;
  out.has_heights = true;
  out.least = by_height(f, pass.least), out.most = by_height(f, pass.most);
  Panel heights{fmt::format("(c) two GPUs of a pass of {} tokens", pass.tokens),
                "rows a tile",
                "over the best height",
                false,
                false,
                {},
                {},
                {}};
  add_heights(heights, fmt::format("{} pairs", pairs_of(space.loads[pass.least])), out.least);
  add_heights(heights, fmt::format("{} pairs", pairs_of(space.loads[pass.most])), out.most);
  heights.levels.push_back({"best", 1});
  out.panels.push_back(std::move(heights));
  return out;
}

const MeasuredFile& shown_file(const PaperRequest& request) {
  const MeasuredFile* shown = nullptr;
  for (const MeasuredFile& file : request.files) {
    if (!is_contiguous_ep(file)) continue;
    const bool is_papers =
        file.space.provenance.model == "qwen3-30b" && file.base_layout() == "ep8";
    if (!shown || is_papers) shown = &file;
  }
  if (!shown)
    throw Error("measurements", fmt::format("{} files", request.files.size()),
                "one of an EP layout", tune_command("qwen3-30b", "ep8"));
  return *shown;
}

}  // namespace

Report paper_figure6(const PaperRequest& request) {
  const MeasuredFile& file = shown_file(request);
  Shown shown = shown_of(file.space, file.name(), request.large_batch);
  const FitQuality quality = fit_quality(file.space, request.large_batch);
  Report report{
      "figure6",
      fmt::format("Figure 6: the cost model on loads it was not fitted on, {} on {}",
                  model_title(file.space.provenance.model), layout_title(file.base_layout())),
      {{"what"}, {"ours", Unit::kRank}, {"two runs", Unit::kRank}},
      {},
      {},
      {file.path},
      {}};
  report.rows.push_back({{{"rank correlation with the measured order, a load, median"},
                          {"", {quality.rank_all}, {0.99}, {}},
                          {"", {quality.twin_all}, {}, {}}},
                         "",
                         ""});
  report.rows.push_back({{{fmt::format("... passes of {} tokens and more", request.large_batch)},
                          {"", {quality.rank_large}, {}, {}},
                          {"", {quality.twin_large}, {}, {}}},
                         "",
                         ""});
  report.rows.push_back(
      {{{"error of a prediction, median, %"}, {"", {quality.median_error}, {}, Unit::kPercent}, {}},
       "",
       ""});
  report.rows.push_back(
      {{{"... of the configuration that it picks, %"},
        {"", {quality.pick_error}, {Number::kUnknown, 0.014, 0.065}, Unit::kPercent},
        {}},
       "",
       ""});
  if (shown.has_heights) {
    const auto row = [&](const char* what, const ByHeight& of, double paper) {
      report.rows.push_back(
          {{{what}, {"", {static_cast<double>(of.picked)}, {paper}, Unit::kCount}, {}}, "", ""});
    };
    row("rows a tile picked on the least loaded GPU of one pass", shown.least, 2);
    row("... on the most loaded GPU", shown.most, 32);
  }
  report.notes.push_back(
      "Fitted on one half of the training passes' samples, held against the other half's of the "
      "test passes. \"two runs\": the two halves against each other. The paper holds a domain "
      "out.");
  report.plots.push_back({report.title, std::move(shown.panels)});
  return report;
}

std::vector<Panel> cost_model_panels(const MeasuredSpace& space, int large_batch) {
  return shown_of(space, space.provenance.model, large_batch).panels;
}

}  // namespace ramp
