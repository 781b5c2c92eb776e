// SPDX-License-Identifier: Apache-2.0
// Which cells a campaign measures, and in which order, so that whatever the budget cuts off is what
// matters least (docs/measuring.md).  Pure functions of the workload, the options and the times
// measured so far: a campaign that was killed computes the same plan again.
//
// Words: an anchor is a load on which every configuration is timed.  A contender is a configuration
// that came near the best on some anchor, so it may be the best somewhere; the others are timed on
// a random share, for their fit alone.  A range is one of pass sizes (choice/sizes.hpp): a budget
// that ends early leaves fewer loads or configurations in each, and none without.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/measurements.hpp"

namespace ramp {

struct PlanOptions {
  // More anchors with a narrow margin leave fewer contenders, and lose less, than few with a wide
  // one (docs/measuring.md).
  int anchors = 24;
  double margin = 0.05;       // a contender is within this of the best on an anchor
  double random_share = 0.1;  // of the cells that are neither an anchor's nor a contender's
  std::uint64_t seed = 1;
};

// Two thirds by size: the heaviest loads of training passes of every range, the smallest and the
// largest load; the rest where loads of one size differ most (active experts, fullest expert).
// Ascending indices of workload.loads; all of them where there are fewer than options.anchors.
std::vector<int> choose_anchors(const Workload& workload, const PlanOptions& options);

// [load]: the range of the smallest pass that holds it.
std::vector<int> ranges_of_loads(const Workload& workload);

// The anchors in the order of their worth: of every range one, then of every range a second, ...;
// in a range first those that are the heaviest load of a training pass, since a pass is as slow as
// that.
std::vector<std::vector<int>> anchor_turns(const Workload& workload,
                                           const std::vector<int>& anchors);

// The loads of a few whole training passes of every range, a range at a time: what menus by pass
// size need at least.
std::vector<int> covering_loads(const Workload& workload);
inline constexpr int kCoveringPasses = 5;  // of a range

// Indices, so that any few of the first differ as much as can be: every occupancy class and every
// height of tiles once before any comes a second time.
std::vector<int> order_configs(const std::vector<Candidate>& configs);

// Every load once, whole passes together, since the slowest GPU of a pass is known only when all
// its loads are timed. Roles take turns; inside a role each next pass is the one least like those
// before it.
std::vector<int> order_loads(const Workload& workload);

// anchor_us[config][anchor]: median us, infinity where there is none.  True for contenders.
std::vector<bool> choose_contenders(const std::vector<std::vector<float>>& anchor_us,
                                    double margin);

// True for those that are slower than kBeaten times the best on every anchor where they were timed:
// what is so far behind in a range of sizes is not worth a second look there.
std::vector<bool> choose_beaten(const std::vector<std::vector<float>>& anchor_us);
inline constexpr double kBeaten = 1.4;

// Whether a cell of a configuration that is no contender belongs to the random share.
bool is_drawn(const std::string& label, const std::vector<int>& load, const PlanOptions& options);

}  // namespace ramp
