// SPDX-License-Identifier: Apache-2.0
// A table for people: columns as wide as their widest cell, numbers to the right.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ramp::cli {

class Table {
 public:
  // A heading that begins with '<' stands, with its column, at the left.
  explicit Table(std::vector<std::string> headings) {
    for (std::string& heading : headings) {
      left_.push_back(heading.starts_with('<'));
      if (left_.back()) heading.erase(0, 1);
    }
    rows_.push_back(std::move(headings));
  }

  void add(std::vector<std::string> cells) {
    cells.resize(rows_.front().size());
    rows_.push_back(std::move(cells));
  }

  std::string text(int indent = 2) const {
    std::vector<std::size_t> width(left_.size(), 0);
    for (const auto& row : rows_)
      for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
    std::string out;
    for (const auto& row : rows_) {
      std::string line(indent, ' ');
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (i > 0) line += "  ";
        line += left_[i] ? fmt::format("{:<{}}", row[i], width[i])
                         : fmt::format("{:>{}}", row[i], width[i]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

 private:
  std::vector<bool> left_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ramp::cli
