// SPDX-License-Identifier: Apache-2.0
// A page for people as data: sections of facts, tables and plots (lab/paper/report.hpp).  html.hpp
// writes it, `--json` prints the same content.
#pragma once

#include <string>
#include <vector>

#include "lab/paper/report.hpp"

namespace ramp {

// A name and what it is.
struct Fact {
  std::string name, value;
};

// What a reader in a hurry takes along: "gap to exhaustive search", "1.0 %", "over 39 passes".
struct Headline {
  std::string name, value, more;
  enum class Kind { kPlain, kGood, kBad } kind = Kind::kPlain;
};

struct PageSection {
  std::string id;  // "gains": unique on the page, letters and dashes
  std::string title;
  std::vector<std::string> says;  // paragraphs above everything else
  std::vector<Fact> facts;
  std::vector<Report> parts;
  std::vector<std::string> commands;  // to be typed
};

struct Page {
  std::string title, subtitle;
  std::string footer;                 // who wrote it and when
  std::vector<std::string> warnings;  // what the reader must know before any number
  std::vector<Headline> headlines;
  std::vector<PageSection> sections;
};

}  // namespace ramp
