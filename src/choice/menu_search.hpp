// SPDX-License-Identifier: Apache-2.0
// Inside of menu.cpp: the passes that menus are compared on, and the greedy growth of one menu on
// some of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "choice/menu.hpp"

namespace ramp {

// Passes left without a time come first: a menu that serves everything beats one that is fast where
// it was timed.
struct MenuCost {
  int untimed = 0;
  double value = 0;  // kTime: us; kRelative: log of the ratio to the full space; summed over passes
  bool operator<(const MenuCost& other) const {
    return untimed != other.untimed ? untimed < other.untimed : value < other.value;
  }
};

// A pass as far as its time is known: all its loads, or those that were timed where its range of
// sizes has too few passes that were timed whole.
struct KnownPass {
  int tokens = 0;
  std::vector<int> loads;  // of the lesson
  double full = 0;         // us with the best candidate on every GPU
};

// What a lesson says of times, filled and cleaned.
struct KnownTimes {
  Lesson lesson;                          // us: measured; predicted in the gaps
  std::vector<KnownPass> passes;          // ascending by tokens
  std::vector<std::vector<bool>> covers;  // [candidate][range of sizes], see MenuSearch
  std::vector<bool> is_member;            // covered well over all sizes, or in one of the ranges
};

// Throws Error for a lesson without timed passes.
KnownTimes known_times(const Lesson& lesson);

struct GrownMenu {
  GreedyMenu menu;
  MenuCost cost;
};

class MenuSearch {
 public:
  MenuSearch(KnownTimes times, const MenuOptions& options);

  const std::vector<KnownPass>& passes() const { return times_.passes; }

  // The best class's menu for passes [from, to) of passes().  Throws Error for an impossible number
  // of entries or an occupancy class nobody has.
  GrownMenu grow(int from, int to) const;

  // How much faster `two` is than `one`, as a share of all passes' time or of the mean pass.
  double gain(const MenuCost& one, const MenuCost& two) const {
    return gain(one, two, static_cast<int>(passes().size()));
  }

 private:
  struct Slice {
    int from, to;
  };
  // The cost of the first n passes, so that a slice's is a difference.
  struct Sums {
    std::vector<int> untimed;
    std::vector<double> value;
  };
  // Times in a menu that asks for so many us of weights ahead, of those that can.
  struct Table {
    TimeTable us;                       // [candidate][GPU of a pass]
    std::vector<Sums> alone;            // of each candidate
    std::map<std::string, Sums> bound;  // of each class: the best of all its candidates everywhere
  };
  double gain(const MenuCost& one, const MenuCost& two, int passes) const;
  void add_pass(int pass, float slowest, MenuCost& cost) const;
  MenuCost cost(Slice slice, const std::vector<float>& best, const std::vector<float>& us) const;
  MenuCost cost(Slice slice, const Sums& sums) const;
  Sums sums(const std::vector<float>& us) const;
  Table table(TimeTable us) const;
  double loss(Slice slice, const MenuCost& cost) const;
  std::map<std::string, std::vector<int>> classes(Slice slice) const;
  GrownMenu grow(Slice slice, const Table& table, const std::vector<int>& members,
                 int entries) const;

  KnownTimes times_;
  MenuOptions options_;
  std::vector<int> first_;  // of each pass's GPUs in the rows of the tables, and their number
  Table alone_;             // of a menu of one
  std::map<float, Table> ahead_;
};

}  // namespace ramp
