// SPDX-License-Identifier: Apache-2.0
// Table 12: what the entries of a menu take alone, and all of them inside one polymorphic kernel.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "lab/paper/results.hpp"

namespace ramp {
namespace {

constexpr double kKilobyte = 1024;
constexpr const char* kModel = "olmoe";  // the paper's

Number range_of(const std::vector<Candidate>& menu, int Candidate::*field, double unit) {
  Number out{Number::kUnknown, menu[0].*field / unit, menu[0].*field / unit};
  for (const Candidate& entry : menu) {
    out.low = std::min(out.low, entry.*field / unit);
    out.high = std::max(out.high, entry.*field / unit);
  }
  if (out.low == out.high) return {out.low};
  return out;
}

}  // namespace

Report paper_table12(const PaperRequest& request) {
  Report report{"table12",
                "Table 12: resources of the polymorphic kernel, OLMoE",
                {{"menu"},
                 {"alone: shared memory KB", Unit::kCount},
                 {"registers", Unit::kCount},
                 {"inside: shared memory KB", Unit::kCount},
                 {"registers", Unit::kCount},
                 {"rows a tile"},
                 {"measurements"}},
                {},
                {},
                {},
                {}};
  const std::vector<PaperRow> paper = paper_rows("12");
  for (const PaperRow& row : paper) {
    const int entries = std::stoi(std::string(row.model));
    const std::vector<double>& v = row.values;
    ReportRow blank{{{fmt::format("{} entries", entries)},
                     {"", {}, {Number::kUnknown, v[0], v[1]}, {}},
                     {"", {}, {Number::kUnknown, v[2], v[3]}, {}},
                     {"", {}, {v[4]}, {}},
                     {"", {}, {v[5]}, {}},
                     {},
                     {}},
                    kNotMeasured,
                    tune_command(kModel, "ep8")};
    bool is_measured = false;
    for (const MeasuredFile& file : request.files) {
      if (file.space.provenance.model != kModel || !file.placement().empty()) continue;
      MenuOptions options = request.menu;
      options.entries = entries;
      std::vector<Candidate> menu;
      for (const int c :
           greedy_menu(make_lesson(file.space, Role::kTrain, Half::kBoth), options).candidates)
        menu.push_back(file.space.candidates[c]);
      ReportRow out = blank;
      out.why_not.clear(), out.next.clear();
      if (static_cast<int>(menu.size()) < entries)
        out.cells[0].text += fmt::format(" ({} of them help)", menu.size());
      out.cells[1].ours = range_of(menu, &Candidate::smem_bytes, kKilobyte);
      out.cells[2].ours = range_of(menu, &Candidate::registers, 1);
      try {
        if (!request.compile_menu) throw Error("no compiler");
        const MenuResources inside = request.compile_menu(menu);
        out.cells[3].ours.value = inside.shared_bytes / kKilobyte;
        out.cells[4].ours.value = inside.registers;
      } catch (const Error& e) {
        out.why_not = "not compiled here";
        // No compiler, or a configuration that this version of the kernel no longer has.
        const std::string why = fmt::format("{}: {}: {}", file.name(), out.why_not, e.what());
        if (std::find(report.notes.begin(), report.notes.end(), why) == report.notes.end())
          report.notes.push_back(why);
      }
      for (const Candidate& entry : menu)
        out.cells[5].text +=
            fmt::format("{}{}", out.cells[5].text.empty() ? "" : " ", entry.grid.phase[0].rows);
      out.cells[6].text = file.name();
      if (std::find(report.files.begin(), report.files.end(), file.path) == report.files.end())
        report.files.push_back(file.path);
      report.rows.push_back(std::move(out));
      is_measured = true;
    }
    if (!is_measured) report.rows.push_back(blank);
  }
  report.notes.push_back(
      "Menus are greedy on the training passes. A persistent block has an SM to itself here: 384 "
      "threads may use 168 registers each, and shared memory goes into pipeline stages, so entries "
      "differ less than the paper's.");
  return report;
}

}  // namespace ramp
