// SPDX-License-Identifier: Apache-2.0
// What differs between two plans: where they come from, what they hold, what their models say, and
// on which loads they choose differently.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "choice/plan.hpp"

namespace ramp {

// A field of the file by its JSON pointer ("/provenance/driver"); empty where one plan lacks it.
struct FieldChange {
  std::string field, a, b;
};

// A configuration that either plan holds and that the two do not hold alike.
struct EntryChange {
  std::string label;
  int a = -1, b = -1;  // index in the menu, -1: not in it
  Theta theta_a, theta_b;
  bool other_knobs = false;  // the same label for another configuration
};

// The batch-size table's entry for that many tokens, by label; empty where there is none.
struct TableChange {
  int tokens = 0;
  std::string a, b;
};

struct LoadChange {
  std::vector<int> load;  // n_e of the local experts
  int entry_a = 0, entry_b = 0;
  float us_a = 0, us_b = 0;  // predicted by the plan that chooses it
  // What b's model says of a's choice; NaN where b does not hold it.  It takes the two models'
  // disagreement about the level out of the comparison.
  float us_b_of_a = std::numeric_limits<float>::quiet_NaN();
};

struct PlanDiff {
  std::vector<FieldChange> fields;  // all but menu and batch table
  std::vector<EntryChange> entries;
  std::vector<TableChange> table;
  std::string not_compared;  // why no load was: the layers hold different numbers of experts
  int loads = 0;
  double predicted = std::numeric_limits<double>::quiet_NaN();  // b / a, geometric mean over loads
  std::vector<LoadChange> choices;  // loads where the chosen configuration differs

  bool same() const { return fields.empty() && entries.empty() && table.empty(); }
};

// Entries, tables and choices are those of the largest passes' menus; other menus for smaller
// passes are a field.  loads: n_e of the local experts of plan a's layer.  Throws Error for a load
// of another size.
PlanDiff diff_plans(const Plan& a, const Plan& b, const std::vector<std::vector<int>>& loads);

// Loads to compare on where nobody gives any: vLLM's batch sizes, each with the mean pairs of one
// GPU of the plan's layout, spread evenly and by Zipf's law with exponents 0.5, 1 and 2; no expert
// gets more tokens than the pass has.
std::vector<std::vector<int>> probe_loads(const Plan& plan);

}  // namespace ramp
