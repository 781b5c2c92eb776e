// SPDX-License-Identifier: Apache-2.0
// The menu M of Section 3.1: n candidates of one occupancy class, chosen greedily so that the
// recorded passes' slowest GPUs are fastest when each GPU runs the best entry for its load.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "choice/fit.hpp"
#include "choice/lesson.hpp"

namespace ramp {

// kTime is the paper's: the sum over passes, in which a prefill pass weighs as much as fifty decode
// passes.  kRelative is the geometric mean, in which every pass weighs the same: right when the
// passes were sampled evenly over sizes and not as often as serving sees them.
enum class MenuObjective { kTime, kRelative };

struct MenuOptions {
  // Where the paper serves one menu of six: a kernel of four entries is small enough that each runs
  // as fast as alone, and menus by pass size lose less than a larger one (docs/policies.md).
  int entries = 4;
  std::string occupancy;  // empty: every class is tried and the best kept
  // A campaign samples passes evenly over sizes, not as often as serving sees them.
  MenuObjective objective = MenuObjective::kRelative;
  int menus = 6;  // by pass size, at most (menus_by_size)
  // What a further entry must bring, as a share of the objective: each makes the kernel's code
  // longer, and an entry whose code lies far back starts late (docs/kernels.md).  0: anything.
  double least_gain = 0.005;
  // Whether an entry takes longer in a menu of several: by what the menu does not ask for ahead,
  // and by the others' code (Candidate::ahead_us, company_us).
  bool counts_company = true;
};

inline constexpr int kMaxMenuEntries = 16;  // what a plan may hold

struct GreedyMenu {
  std::vector<int> candidates;  // in the order they were added: the first n are the menu of n
  // Of the menu up to here against the full space, by the objective; 0.01 = 1 % slower.  The best
  // of many noisy times is too good to be true, so this is an upper bound.
  std::vector<double> loss;
  std::string occupancy;
};

// Passes of up to `up_to` tokens run this menu: a serving engine captures a graph a batch size, so
// which kernel is in it may depend on the size, and only the entry waits for the routing.
struct SizedMenu {
  int up_to = kAnySize;
  GreedyMenu menu;
  static constexpr int kAnySize = std::numeric_limits<int>::max();
};

// Ends early when no further candidate brings options.least_gain.  Throws Error for an impossible
// number of entries, an occupancy class nobody has, or a lesson without timed passes.
GreedyMenu greedy_menu(const Lesson& lesson, const MenuOptions& options);

// The greedy menu, or up to options.menus of options.entries each, parted where that makes the
// passes, and those of sizes near theirs (choice/nearby_sizes.hpp), fastest; GreedyMenu::loss is of
// these then.  One more only where that is a tenth of a per cent faster, and where each has
// kLeastPasses such passes to grow on, as many as one training pass makes.  Ascending; the last is
// kAnySize.
std::vector<SizedMenu> menus_by_size(const Lesson& lesson, const MenuOptions& options);
// What predicts in each of these menus: fit_candidates_of_sizes of the sizes that it serves.
std::vector<std::vector<CandidateFit>> fits_of_menus(const Lesson& lesson,
                                                     const std::vector<CandidateFit>& whole,
                                                     const std::vector<SizedMenu>& menus);
inline constexpr int kLeastPasses = 5;
inline constexpr int kMostMenus = 6;

}  // namespace ramp
