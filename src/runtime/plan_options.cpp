// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_options.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "kernels/device_code.hpp"
#include "kernels/ffn/space.hpp"
#include "problem/catalog.hpp"

namespace ramp {
namespace {

constexpr const char* kRetune = "make a plan for this case with `ramp tune`";

template <class Value>
void require_same(const char* field, const Value& plan, const Value& here, const char* next) {
  if (plan != here)
    throw Error(fmt::format("plan {}", field), fmt::format("{}", plan),
                fmt::format("{}, as here", here), next);
}

void check_shape(const LocalShape& plan, const LocalShape& here) {
  require_same("/shape/experts", plan.experts, here.experts, kRetune);
  require_same("/shape/top_k", plan.top_k, here.top_k, kRetune);
  require_same("/shape/hidden", plan.hidden, here.hidden, kRetune);
  require_same("/shape/intermediate", plan.intermediate, here.intermediate, kRetune);
}

// The choice evaluates the configuration's own grid; a plan whose grid says otherwise was fitted on
// something else.
void check_grid(const PlanEntry& entry, const FfnConfig& config, const Plan& plan,
                const std::string& at) {
  if (!plan.gpu.sms) return;
  const Grid want = ffn_grid(config, plan.shape.hidden, plan.shape.intermediate, plan.gpu.sms);
  const auto text = [](const Grid& g) {
    std::string all;
    for (int p = 0; p < g.phases; ++p)
      all += fmt::format("{}{} rows x {} column tiles on {} slots", p ? ", " : "", g.phase[p].rows,
                         g.phase[p].col_tiles, g.phase[p].slots);
    return all;
  };
  if (text(entry.grid) != text(want))
    throw Error("plan " + at + "/grid", text(entry.grid),
                fmt::format("{} ({} here)", text(want), entry.label), kRetune);
}

}  // namespace

void require_plan_gpu(const Plan& plan, const gpu::DeviceInfo& device) {
  const char* next = "make a plan on this GPU with `ramp tune`, or allow a foreign GPU's plan";
  if (!plan.gpu.name.empty()) require_same("/gpu/name", plan.gpu.name, device.name, next);
  if (plan.gpu.cc_major)
    require_same("/gpu/compute_capability",
                 fmt::format("{}.{}", plan.gpu.cc_major, plan.gpu.cc_minor),
                 fmt::format("{}.{}", device.cc_major, device.cc_minor), next);
  if (plan.gpu.sms) require_same("/gpu/sms", plan.gpu.sms, device.sms, next);
}

LayerOptions options_from_plan(const Plan& plan, const PlanUse& use) {
  check_plan(plan);
  if (const Model* model = find_model_or_null(plan.model); model && !model->refusal.empty())
    throw Error("plan /model", plan.model,
                "a model whose experts this version runs: here " + model->refusal,
                "see `ramp catalog`");
  if (use.shape) check_shape(plan.shape, *use.shape);
  if (use.device && !use.foreign_gpu) require_plan_gpu(plan, *use.device);

  LayerOptions options;
  options.ordered = plan.mode == "ordered";
  options.shape = plan.shape;
  options.experts = use.experts;
  options.first_expert = use.first_expert;
  options.expert_map = use.expert_map;
  for (std::size_t i = 0; i < plan.menu.size(); ++i) {
    const PlanEntry& entry = plan.menu[i];
    const std::string at = fmt::format("/menu/{}", i);
    FfnConfig config;
    try {
      config = ffn_from_knobs(entry.knobs);
    } catch (const Error& e) {
      throw Error(fmt::format("plan {}: {}", at, e.what()));
    }
    check_grid(entry, config, plan, at);
    options.menu.push_back(config);
    options.theta.push_back(entry.theta);
  }
  check_layer_options(options);
  return options;
}

std::vector<SizedOptions> all_options_from_plan(const Plan& plan, const PlanUse& use) {
  std::vector<SizedOptions> all;
  for_each_part(plan, [&](int up_to, const Plan& part) {
    PlanUse its = use;
    if (up_to) its.device.reset();  // the whole plan says which GPU it is for
    try {
      all.push_back({up_to, options_from_plan(part, its)});
    } catch (const Error& e) {
      if (up_to == 0) throw;
      throw Error(fmt::format("for passes of up to {} tokens: {}", up_to, e.what()));
    }
  });
  return all;
}

std::string plan_staleness(const Plan& plan) {
  if (plan.edited) return "the plan's file was edited after it was made";
  if (!plan.provenance.sources.empty() && plan.provenance.sources != device_sources_hash())
    return fmt::format(
        "measured with device code {}, this program has {}: predictions may be off; "
        "`ramp tune` measures again",
        plan.provenance.sources, device_sources_hash());
  return "";
}

}  // namespace ramp
