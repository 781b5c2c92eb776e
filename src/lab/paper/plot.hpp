// SPDX-License-Identifier: Apache-2.0
// A figure as data: panels of series.  svg.hpp draws it, --csv and --json write it out.
#pragma once

#include <string>
#include <vector>

namespace ramp {

struct Series {
  enum class Kind { kLine, kPoints, kBars, kArea, kStars };
  std::string name;
  Kind kind = Kind::kLine;
  std::vector<double> x, y;
  // kBars, kPoints: whiskers, maybe empty.  kArea: filled from low to y.
  std::vector<double> low, high;
};

struct Panel {
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;
  std::vector<Series> series;
  struct Level {  // a horizontal line: a floor, a mean, "no gain"
    std::string name;
    double y = 0;
  };
  std::vector<Level> levels;
  std::vector<std::string> categories;  // names of x = 0, 1, 2, ... in place of numbers
};

struct Plot {
  std::string title;
  std::vector<Panel> panels;
};

// panel,series,x,y,low,high
std::string csv_of(const std::vector<Plot>& plots);

}  // namespace ramp
