// SPDX-License-Identifier: Apache-2.0
#include "choice/plan.hpp"

#include <xxhash.h>

#include <cmath>
#include <cstring>
#include <set>

#include "base/build.hpp"
#include "base/error.hpp"
#include "choice/batch_table.hpp"
#include "choice/sizes.hpp"

namespace ramp {
namespace {

constexpr const char* kNext = "make the plan again with `ramp plan make` or `ramp tune`";

void check_range(const std::string& at, long long value, long long low, long long high) {
  if (value < low || value > high)
    throw Error(at, std::to_string(value), fmt::format("{} to {}", low, high), kNext);
}

void check_grid(const Grid& grid, const std::string& at) {
  check_range(at, grid.phases, 1, Grid::kMaxPhases);
  for (int p = 0; p < grid.phases; ++p) {
    const std::string phase = fmt::format("{}/{}", at, p);
    check_range(phase + "/rows", grid.phase[p].rows, 1, 1024);
    check_range(phase + "/col_tiles", grid.phase[p].col_tiles, 1, kMaxColTiles);
    check_range(phase + "/slots", grid.phase[p].slots, 1, 1 << 20);
  }
}

void check_theta(const Theta& t, const std::string& at) {
  const std::pair<const char*, float> terms[] = {
      {"/fixed_us", t.fixed}, {"/wave_us", t.wave}, {"/tile_us", t.tile}, {"/expert_us", t.expert}};
  for (const auto& [name, us] : terms)
    if (!std::isfinite(us) || us < 0)
      throw Error(at + name, fmt::format("{}", us), "finite, 0 or more", kNext);
  // An entry that costs nothing would be chosen for every load.
  if (t.fixed == 0 && t.wave == 0 && t.tile == 0 && t.expert == 0)
    throw Error(at, "four zeros", "one coefficient above 0", kNext);
}

void check_fraction(const std::string& at, double value) {
  if (!std::isnan(value) && !(std::abs(value) <= 1e6))
    throw Error(at, fmt::format("{}", value), "null or a number within 1e6", kNext);
}

// A part is read as a plan of its own, so its errors name places inside it.
void check_smaller(const Plan& plan) {
  int below = 0;
  for (size_t i = 0; i < plan.smaller.size(); ++i) {
    const auto& [up_to, part] = plan.smaller[i];
    const std::string at = fmt::format("/smaller/{}", i);
    check_range(at + "/up_to", up_to, below + 1LL, 1 << 24);
    below = up_to;
    if (!part.smaller.empty()) throw Error(at + "/plan/smaller", "parts of a part", "none", kNext);
    const auto same = [&](const char* field, const std::string& ours, const std::string& its) {
      if (ours != its) throw Error(at + "/plan/" + field, its, ours + ", as the whole plan", kNext);
    };
    const auto shape = [](const LocalShape& s) {
      return fmt::format("{} experts, top {}, d {}, h {}", s.experts, s.top_k, s.hidden,
                         s.intermediate);
    };
    same("model", plan.model, part.model);
    same("layout", plan.layout, part.layout);
    same("mode", plan.mode, part.mode);
    same("gpus", std::to_string(plan.gpus), std::to_string(part.gpus));
    same("shape", shape(plan.shape), shape(part.shape));
    try {
      check_plan(part);
    } catch (const Error& e) {
      throw Error(at + "/plan" + e.what());
    }
  }
}

}  // namespace

const Plan& plan_for(const Plan& plan, int tokens) {
  for (const SizedPlan& sized : plan.smaller)
    if (tokens <= sized.up_to) return sized.plan;
  return plan;
}

void set_gpu(Plan& plan, const PlanGpu& gpu) {
  plan.gpu = gpu;
  for (SizedPlan& sized : plan.smaller) sized.plan.gpu = gpu;
}

void check_plan(const Plan& plan) {
  if (plan.mode != "fast" && plan.mode != "ordered")
    throw Error("/mode", plan.mode, "fast, ordered", kNext);
  check_range("/gpus", plan.gpus, 1, 65536);
  check_range("/shape/experts", plan.shape.experts, 1, kMaxExperts);
  check_range("/shape/top_k", plan.shape.top_k, 1, 64);
  check_range("/shape/hidden", plan.shape.hidden, 1, 1 << 20);
  check_range("/shape/intermediate", plan.shape.intermediate, 1, 1 << 20);
  check_range("/gpu/sms", plan.gpu.sms, 0, 65536);
  check_range("/gpu/compute_capability", plan.gpu.cc_major, 0, 99);
  check_range("/gpu/compute_capability", plan.gpu.cc_minor, 0, 99);
  check_range("/gpu/memory_bytes", plan.gpu.memory_bytes, 0, 1LL << 50);
  check_range("/menu", static_cast<long long>(plan.menu.size()), 1, kMaxMenuEntries);
  std::set<std::string> labels;
  for (size_t i = 0; i < plan.menu.size(); ++i) {
    const PlanEntry& entry = plan.menu[i];
    const std::string at = fmt::format("/menu/{}", i);
    if (entry.label.empty() || !labels.insert(entry.label).second)
      throw Error(at + "/label", entry.label.empty() ? "an empty text" : entry.label,
                  "labels that differ", kNext);
    check_grid(entry.grid, at + "/grid");
    if (entry.grid.phases != plan.menu[0].grid.phases)
      throw Error(at + "/grid", fmt::format("{} phases", entry.grid.phases),
                  fmt::format("{} as in /menu/0", plan.menu[0].grid.phases), kNext);
    check_theta(entry.theta, at + "/theta");
    check_range(at + "/registers", entry.registers, 0, 255);
    check_range(at + "/smem_bytes", entry.smem_bytes, 0, 1 << 24);
    check_range(at + "/fit/observations", entry.observations, 0, 1 << 30);
    check_fraction(at + "/fit/median_error", entry.median_error);
  }
  for (size_t i = 0; i < plan.batch_table.size(); ++i) {
    const std::string at = fmt::format("/batch_table/{}", i);
    check_range(at + "/tokens", plan.batch_table[i].tokens,
                i ? plan.batch_table[i - 1].tokens + 1LL : 0, 1 << 24);
    check_range(at + "/entry", plan.batch_table[i].entry, 0,
                static_cast<long long>(plan.menu.size()) - 1);
  }
  check_range("/quality/test_passes", plan.quality.test_passes, 0, 1 << 30);
  check_fraction("/quality/median_error", plan.quality.median_error);
  check_fraction("/quality/rank_correlation", plan.quality.rank_correlation);
  check_fraction("/quality/rank_of_two_runs", plan.quality.rank_of_two_runs);
  check_fraction("/quality/gap", plan.quality.gap);
  check_fraction("/quality/speedup_over_fixed", plan.quality.speedup_over_fixed);
  check_fraction("/quality/speedup_over_vllm", plan.quality.speedup_over_vllm);
  check_fraction("/quality/menu_loss", plan.quality.menu_loss);
  check_smaller(plan);
}

std::string grid_words(const Grid& grid) {
  std::string text;
  for (int p = 0; p < grid.phases; ++p)
    text += fmt::format("{}{} x {} / {}", p ? " + " : "", grid.phase[p].rows,
                        grid.phase[p].col_tiles, grid.phase[p].slots);
  return text;
}

std::vector<MenuEntry> menu_of(const Plan& plan) {
  std::vector<MenuEntry> menu;
  for (const PlanEntry& entry : plan.menu) menu.push_back({entry.grid, entry.theta});
  return menu;
}

Plan make_plan(const MeasuredSpace& space, const GreedyMenu& menu,
               const std::vector<CandidateFit>& fits) {
  const Provenance& from = space.provenance;
  Plan plan;
  plan.model = from.model;
  plan.layout = from.layout;
  plan.gpus = space.gpus;
  plan.shape = space.shape;
  plan.gpu.name = from.gpu;
  plan.occupancy = menu.occupancy;
  for (int c : menu.candidates) {
    const Candidate& candidate = space.candidates[c];
    if (!fits[c].fitted)
      throw Error(candidate.label, fits[c].why_not, "a fitted candidate",
                  "profile it on more loads");
    PlanEntry entry{candidate.label, candidate.knobs.empty() ? "{}" : candidate.knobs,
                    candidate.grid};
    entry.theta = fits[c].fit.theta;
    entry.registers = candidate.registers;
    entry.smem_bytes = candidate.smem_bytes;
    entry.observations = fits[c].fit.observations;
    entry.median_error = fits[c].fit.median_error;
    plan.menu.push_back(std::move(entry));
  }
  const BatchTable table =
      tune_batch_table(make_lesson(space, Role::kTrain, Half::kBoth), menu.candidates);
  for (size_t i = 0; i < table.keys.size(); ++i)
    for (size_t e = 0; e < menu.candidates.size(); ++e)
      if (menu.candidates[e] == table.choice[i])
        plan.batch_table.push_back({table.keys[i], static_cast<int>(e)});
  if (!menu.loss.empty() && std::isfinite(menu.loss.back()))
    plan.quality.menu_loss = menu.loss.back();
  const std::string how = text_of({from.kernel.empty() ? from.how : from.kernel + ": " + from.how,
                                   coverage_text(coverage_by_size(space)), thin_warning(space)});
  plan.provenance = {from.routing, space_hash(space),
                     from.date,    from.driver,
                     from.toolkit, how,
                     from.sources, from.commit,
                     today(),      fmt::format("ramp {} ({})", build_version(), build_commit())};
  check_plan(plan);
  return plan;
}

Plan make_plan(const MeasuredSpace& space, const std::vector<SizedMenu>& menus,
               const std::vector<std::vector<CandidateFit>>& fits) {
  Plan plan = make_plan(space, menus.back().menu, fits.back());
  for (size_t i = 0; i + 1 < menus.size(); ++i)
    plan.smaller.push_back({menus[i].up_to, make_plan(space, menus[i].menu, fits[i])});
  check_plan(plan);
  return plan;
}

std::string space_hash(const MeasuredSpace& space) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  const auto number = [&](long long n) { XXH3_128bits_update(state, &n, sizeof n); };
  const auto bytes = [&](const void* data, size_t size) {
    number(static_cast<long long>(size));
    XXH3_128bits_update(state, data, size);
  };
  for (const Candidate& c : space.candidates) {
    bytes(c.label.data(), c.label.size());
    for (int p = 0; p < c.grid.phases; ++p)
      number(c.grid.phase[p].rows), number(c.grid.phase[p].col_tiles),
          number(c.grid.phase[p].slots);
  }
  for (const auto& load : space.loads) bytes(load.data(), load.size() * sizeof(int));
  for (const MeasuredPass& pass : space.passes) {
    number(pass.tokens), number(static_cast<int>(pass.role));
    bytes(pass.load_of_gpu.data(), pass.load_of_gpu.size() * sizeof(int));
  }
  for (const auto& row : space.samples)
    for (const auto& samples : row) bytes(samples.data(), samples.size() * sizeof(float));
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return fmt::format("xxh3-128:{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace ramp
