// SPDX-License-Identifier: Apache-2.0
// A report (lab/paper/report.hpp) for people and for machines.
#pragma once

#include <nlohmann/json.hpp>

#include "lab/paper/report.hpp"
#include "lab/paper/request.hpp"

namespace ramp::cli {

void print_report(const Report& report, const PaperRequest& request);

// Columns, rows, notes and plots.
nlohmann::json table_json(const Report& report);
// ... and the files that it rests on.
nlohmann::json report_json(const Report& report, const PaperRequest& request);

}  // namespace ramp::cli
