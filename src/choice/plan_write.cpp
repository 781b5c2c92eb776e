// SPDX-License-Identifier: Apache-2.0
// Plan -> JSON.  The reader is plan_read.cpp; what both agree on is in plan_json.hpp.
#include <fmt/format.h>

#include <cmath>

#include "base/whole_file.hpp"
#include "choice/plan.hpp"
#include "choice/plan_json.hpp"

namespace ramp {
namespace {

using nlohmann::json;

// The shortest decimal that reads back as the same float: 1.2, not 1.2000000476837158.
json decimal(float value) {
  const double shortest = json::parse(fmt::format("{}", value)).get<double>();
  return static_cast<float>(shortest) == value ? shortest : static_cast<double>(value);
}

json or_null(double value) { return std::isnan(value) ? json(nullptr) : json(value); }

json entry_json(const PlanEntry& entry) {
  json grid = json::array();
  for (int p = 0; p < entry.grid.phases; ++p) {
    const Phase& phase = entry.grid.phase[p];
    grid.push_back({{"rows", phase.rows}, {"col_tiles", phase.col_tiles}, {"slots", phase.slots}});
  }
  return {{"label", entry.label},
          {"knobs", parse_strict_json(entry.knobs)},
          {"grid", std::move(grid)},
          {"theta",
           {{"fixed_us", decimal(entry.theta.fixed)},
            {"wave_us", decimal(entry.theta.wave)},
            {"tile_us", decimal(entry.theta.tile)},
            {"expert_us", decimal(entry.theta.expert)}}},
          {"registers", entry.registers},
          {"smem_bytes", entry.smem_bytes},
          {"fit",
           {{"observations", entry.observations}, {"median_error", or_null(entry.median_error)}}}};
}

json quality_json(const PlanQuality& q) {
  return {{"test_passes", q.test_passes},
          {"median_error", or_null(q.median_error)},
          {"rank_correlation", or_null(q.rank_correlation)},
          {"rank_of_two_runs", or_null(q.rank_of_two_runs)},
          {"gap", or_null(q.gap)},
          {"speedup_over_fixed", or_null(q.speedup_over_fixed)},
          {"speedup_over_vllm", or_null(q.speedup_over_vllm)},
          {"menu_loss", or_null(q.menu_loss)}};
}

json plan_json(const Plan& plan) {
  const PlanProvenance& p = plan.provenance;
  json out = {{"format", kPlanFormat},
              {"version", kPlanVersion},
              {"revision", kPlanRevision},
              {"model", plan.model},
              {"layout", plan.layout},
              {"gpus", plan.gpus},
              {"mode", plan.mode},
              {"shape",
               {{"experts", plan.shape.experts},
                {"top_k", plan.shape.top_k},
                {"hidden", plan.shape.hidden},
                {"intermediate", plan.shape.intermediate}}},
              {"gpu",
               {{"name", plan.gpu.name},
                {"compute_capability", {plan.gpu.cc_major, plan.gpu.cc_minor}},
                {"sms", plan.gpu.sms},
                {"memory_bytes", plan.gpu.memory_bytes}}},
              {"occupancy", plan.occupancy},
              {"menu", json::array()},
              {"batch_table", json::array()},
              {"quality", quality_json(plan.quality)},
              {"provenance",
               {{"routing", p.routing},
                {"measurements", p.measurements},
                {"measured_on", p.measured_on},
                {"driver", p.driver},
                {"toolkit", p.toolkit},
                {"how", p.how},
                {"sources", p.sources},
                {"commit", p.commit},
                {"planned_on", p.planned_on},
                {"planned_by", p.planned_by}}}};
  for (const PlanEntry& entry : plan.menu) out["menu"].push_back(entry_json(entry));
  for (const PlanTableRow& row : plan.batch_table)
    out["batch_table"].push_back({{"tokens", row.tokens}, {"entry", row.entry}});
  for (const SizedPlan& sized : plan.smaller)
    out["smaller"].push_back({{"up_to", sized.up_to}, {"plan", plan_json(sized.plan)}});
  out["identity"] = identity_of(out);
  return out;
}

}  // namespace

std::string plan_text(const Plan& plan) {
  check_plan(plan);
  return plan_json(plan).dump(2) + "\n";
}

void write_plan(const std::string& path, Plan& plan) {
  const std::string text = plan_text(plan);
  // What can't be read back must not be written.
  plan.identity = parse_plan(text).identity;
  write_whole_file(path, text);
}

}  // namespace ramp
