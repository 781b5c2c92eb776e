// SPDX-License-Identifier: Apache-2.0
#include "choice/menu.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "choice/fit.hpp"
#include "choice/menu_search.hpp"
#include "choice/nearby_sizes.hpp"

namespace ramp {
namespace {

constexpr double kWorthAnotherMenu = 0.001;

// Two to an octave: finer than the sizes that passes are known at (kNearby), so that no more is
// lost by where a menu ends, and few enough that all ways of parting them are tried.
constexpr int kStepsAnOctave = 2;

int step_of(int tokens) {
  return static_cast<int>(std::lround(kStepsAnOctave * std::log2(tokens)));
}

// Passes of one step, [from, to) of all.
struct Step {
  int step = 0;
  int from = 0, to = 0;
};

std::vector<Step> steps_of(const std::vector<KnownPass>& passes) {
  std::vector<Step> steps;
  for (int p = 0; p < static_cast<int>(passes.size()); ++p) {
    const int step = step_of(passes[p].tokens);
    if (steps.empty() || steps.back().step != step) steps.push_back({step, p, p});
    steps.back().to = p + 1;
  }
  return steps;
}

// The largest size of the lower of two menus; sizes between their steps go to the nearer one.
int border(const Step& below, const Step& above) {
  return static_cast<int>(std::exp2((below.step + above.step) / (2.0 * kStepsAnOctave)));
}

}  // namespace

GreedyMenu greedy_menu(const Lesson& lesson, const MenuOptions& options) {
  const MenuSearch search(known_times(lesson), options);
  return search.grow(0, static_cast<int>(search.passes().size())).menu;
}

std::vector<SizedMenu> menus_by_size(const Lesson& lesson, const MenuOptions& options) {
  if (options.menus < 1 || options.menus > kMostMenus)
    throw Error("menus", std::to_string(options.menus), fmt::format("1 to {}", kMostMenus),
                "two: one for small passes, one for the rest");
  if (options.menus == 1) return {{SizedMenu::kAnySize, greedy_menu(lesson, options)}};
  const MenuSearch search(with_nearby_sizes(known_times(lesson), lesson), options);
  const std::vector<Step> steps = steps_of(search.passes());

  // best[m][j]: the first j steps in m menus.  Each part is grown once, whatever stands before it.
  struct Parted {
    MenuCost cost;
    std::vector<SizedMenu> menus;
  };
  std::vector<std::vector<std::optional<Parted>>> best(
      options.menus + 1, std::vector<std::optional<Parted>>(steps.size() + 1));
  best[0][0] = Parted{};
  for (size_t j = 1; j <= steps.size(); ++j)
    for (size_t i = 0; i < j; ++i) {
      const int from = steps[i].from, to = steps[j - 1].to;
      const bool is_whole = i == 0 && j == steps.size();
      if (to - from < kLeastPasses && !is_whole) continue;
      std::optional<GrownMenu> part;
      for (int m = 1; m <= options.menus; ++m) {
        if (!best[m - 1][i]) continue;
        if (!part) part = search.grow(from, to);
        Parted now = *best[m - 1][i];
        now.cost.untimed += part->cost.untimed;
        now.cost.value += part->cost.value;
        now.menus.push_back(
            {j < steps.size() ? border(steps[j - 1], steps[j]) : SizedMenu::kAnySize, part->menu});
        if (!best[m][j] || now.cost < best[m][j]->cost) best[m][j] = std::move(now);
      }
    }
  const Parted* chosen = &*best[1][steps.size()];
  for (int m = 2; m <= options.menus; ++m)
    if (const auto& more = best[m][steps.size()];
        more && search.gain(chosen->cost, more->cost) > kWorthAnotherMenu)
      chosen = &*more;
  return chosen->menus;
}

std::vector<std::vector<CandidateFit>> fits_of_menus(const Lesson& lesson,
                                                     const std::vector<CandidateFit>& whole,
                                                     const std::vector<SizedMenu>& menus) {
  std::vector<std::vector<CandidateFit>> fits;
  int above = 0;
  for (const SizedMenu& sized : menus) {
    fits.push_back(fit_candidates_of_sizes(lesson, whole, above, sized.up_to));
    above = sized.up_to;
  }
  return fits;
}

}  // namespace ramp
