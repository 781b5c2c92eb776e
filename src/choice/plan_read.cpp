// SPDX-License-Identifier: Apache-2.0
// JSON -> Plan.  Every field is required unless it says otherwise; what is not known is kept in the
// identity and warned of, because a newer program of the same version may have written it.
#include <cmath>
#include <limits>
#include <set>

#include "base/error.hpp"
#include "choice/plan.hpp"
#include "choice/plan_json.hpp"
#include "problem/text_file.hpp"

namespace ramp {
namespace {

using nlohmann::json;

constexpr const char* kNext = "take the plan again from where it was made, or make a new one";

// One object of the file: hands out its fields with their types checked, and knows at the end which
// nobody asked for.
class Fields {
 public:
  Fields(const json& value, std::string at, std::vector<std::string>& warnings)
      : value_(value), at_(std::move(at)), warnings_(warnings) {
    if (!value.is_object())
      throw Error(at_.empty() ? "/" : at_, value.type_name(), "an object", kNext);
  }
  ~Fields() {
    for (const auto& [name, unused] : value_.items())
      if (!known_.count(name))
        warnings_.push_back(at_ + "/" + name + ": not known to this version, ignored");
  }

  std::string at(const char* name) const { return at_ + "/" + name; }

  const json& any(const char* name) {
    known_.insert(name);
    const auto found = value_.find(name);
    if (found == value_.end()) throw Error(at(name), "nothing", "this field", kNext);
    return *found;
  }
  Fields object(const char* name) { return {any(name), at(name), warnings_}; }

  const json& array(const char* name) {
    const json& value = any(name);
    if (!value.is_array()) throw Error(at(name), value.type_name(), "an array", kNext);
    return value;
  }
  std::string text(const char* name) {
    const json& value = any(name);
    if (!value.is_string()) throw Error(at(name), value.dump(), "a text", kNext);
    return value.get<std::string>();
  }
  long long integer(const char* name) { return integer(any(name), at(name)); }
  int small(const char* name) { return small(any(name), at(name)); }
  double number(const char* name) {
    const json& value = any(name);
    if (!value.is_number()) throw Error(at(name), value.type_name(), "a number", kNext);
    return value.get<double>();
  }
  float single(const char* name) {
    const double value = number(name);
    if (std::abs(value) > std::numeric_limits<float>::max())
      throw Error(at(name), fmt::format("{}", value), "a number that fits 32 bits", kNext);
    return static_cast<float>(value);
  }
  double number_or_null(const char* name) {
    return any(name).is_null() ? PlanQuality::kUnknown : number(name);
  }

  static long long integer(const json& value, const std::string& at) {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX))
      throw Error(at, value.is_number() ? value.dump() : value.type_name(), "a whole number",
                  kNext);
    return value.get<long long>();
  }
  static int small(const json& value, const std::string& at) {
    const long long n = integer(value, at);
    if (n < std::numeric_limits<int>::min() || n > std::numeric_limits<int>::max())
      throw Error(at, std::to_string(n), "a number of 32 bits", kNext);
    return static_cast<int>(n);
  }

 private:
  const json& value_;
  std::string at_;
  std::vector<std::string>& warnings_;
  std::set<std::string> known_;
};

constexpr size_t kMaxKnobs = 64;

std::string read_knobs(const json& knobs, const std::string& at) {
  if (!knobs.is_object()) throw Error(at, knobs.type_name(), "an object", kNext);
  if (knobs.size() > kMaxKnobs)
    throw Error(at, fmt::format("{} knobs", knobs.size()), fmt::format("up to {}", kMaxKnobs),
                kNext);
  for (const auto& [name, value] : knobs.items())
    if (!value.is_number_integer() && !value.is_boolean() && !value.is_string())
      throw Error(at + "/" + name, value.type_name(), "a whole number, a truth value or a word",
                  kNext);
  return knobs.dump();
}

Grid read_grid(const json& phases, const std::string& at, std::vector<std::string>& warnings) {
  if (!phases.is_array() || phases.empty() || phases.size() > static_cast<size_t>(Grid::kMaxPhases))
    throw Error(at,
                phases.is_array() ? fmt::format("{} phases", phases.size()) : phases.type_name(),
                fmt::format("an array of 1 to {} phases", Grid::kMaxPhases), kNext);
  Grid grid;
  grid.phases = static_cast<int>(phases.size());
  for (int p = 0; p < grid.phases; ++p) {
    Fields phase(phases[p], fmt::format("{}/{}", at, p), warnings);
    grid.phase[p] = {phase.small("rows"), phase.small("col_tiles"), phase.small("slots")};
  }
  return grid;
}

PlanEntry read_entry(const json& value, const std::string& at, std::vector<std::string>& warnings) {
  Fields fields(value, at, warnings);
  PlanEntry entry;
  entry.label = fields.text("label");
  entry.knobs = read_knobs(fields.any("knobs"), fields.at("knobs"));
  entry.grid = read_grid(fields.any("grid"), fields.at("grid"), warnings);
  Fields theta = fields.object("theta");
  entry.theta = {theta.single("fixed_us"), theta.single("wave_us"), theta.single("tile_us"),
                 theta.single("expert_us")};
  entry.registers = fields.small("registers");
  entry.smem_bytes = fields.small("smem_bytes");
  Fields fit = fields.object("fit");
  entry.observations = fit.small("observations");
  entry.median_error = fit.number_or_null("median_error");
  return entry;
}

PlanGpu read_gpu(Fields gpu) {
  PlanGpu out;
  out.name = gpu.text("name");
  const json& cc = gpu.array("compute_capability");
  if (cc.size() != 2)
    throw Error(gpu.at("compute_capability"), fmt::format("{} numbers", cc.size()),
                "major and minor", kNext);
  out.cc_major = Fields::small(cc[0], gpu.at("compute_capability"));
  out.cc_minor = Fields::small(cc[1], gpu.at("compute_capability"));
  out.sms = gpu.small("sms");
  out.memory_bytes = gpu.integer("memory_bytes");
  return out;
}

PlanQuality read_quality(Fields q) {
  PlanQuality out;
  out.test_passes = q.small("test_passes");
  out.median_error = q.number_or_null("median_error");
  out.rank_correlation = q.number_or_null("rank_correlation");
  out.rank_of_two_runs = q.number_or_null("rank_of_two_runs");
  out.gap = q.number_or_null("gap");
  out.speedup_over_fixed = q.number_or_null("speedup_over_fixed");
  out.speedup_over_vllm = q.number_or_null("speedup_over_vllm");
  out.menu_loss = q.number_or_null("menu_loss");
  return out;
}

PlanProvenance read_provenance(Fields p) {
  return {p.text("routing"),    p.text("measurements"), p.text("measured_on"), p.text("driver"),
          p.text("toolkit"),    p.text("how"),          p.text("sources"),     p.text("commit"),
          p.text("planned_on"), p.text("planned_by")};
}

void check_version(Fields& fields, std::vector<std::string>& warnings) {
  if (const std::string format = fields.text("format"); format != kPlanFormat)
    throw Error("/format", format, kPlanFormat, "check that this is a plan");
  const int version = fields.small("version"), revision = fields.small("revision");
  if (version != kPlanVersion)
    throw Error(
        "/version", std::to_string(version), std::to_string(kPlanVersion),
        version > kPlanVersion ? "update ramp, or make the plan again with this one" : kNext);
  if (revision > kPlanRevision)
    warnings.push_back(fmt::format("/revision: {} is newer than {}, some fields may be ignored",
                                   revision, kPlanRevision));
}

Plan read_fields(const json& root, std::vector<std::string>& warnings) {
  Plan plan;
  Fields fields(root, "", warnings);
  check_version(fields, warnings);
  plan.identity = fields.text("identity");
  plan.model = fields.text("model");
  plan.layout = fields.text("layout");
  plan.gpus = fields.small("gpus");
  plan.mode = fields.text("mode");
  Fields shape = fields.object("shape");
  plan.shape = {shape.small("experts"), shape.small("top_k"), shape.small("hidden"),
                shape.small("intermediate")};
  plan.gpu = read_gpu(fields.object("gpu"));
  plan.occupancy = fields.text("occupancy");
  const json& menu = fields.array("menu");
  if (menu.size() > static_cast<size_t>(kMaxMenuEntries))
    throw Error("/menu", fmt::format("{} entries", menu.size()),
                fmt::format("1 to {}", kMaxMenuEntries), kNext);
  for (size_t i = 0; i < menu.size(); ++i)
    plan.menu.push_back(read_entry(menu[i], fmt::format("/menu/{}", i), warnings));
  const json& table = fields.array("batch_table");
  for (size_t i = 0; i < table.size(); ++i) {
    Fields row(table[i], fmt::format("/batch_table/{}", i), warnings);
    plan.batch_table.push_back({row.small("tokens"), row.small("entry")});
  }
  plan.quality = read_quality(fields.object("quality"));
  plan.provenance = read_provenance(fields.object("provenance"));
  if (!root.contains("smaller")) return plan;  // one menu for all sizes
  const json& smaller = fields.array("smaller");
  if (smaller.size() > kMostMenus)
    throw Error("/smaller", fmt::format("{} parts", smaller.size()),
                fmt::format("up to {}", kMostMenus), kNext);
  for (size_t i = 0; i < smaller.size(); ++i) {
    const std::string at = fmt::format("/smaller/{}", i);
    Fields part(smaller[i], at, warnings);
    SizedPlan sized{part.small("up_to"), {}};
    std::vector<std::string> its_warnings;
    try {
      sized.plan = read_fields(part.any("plan"), its_warnings);
    } catch (const Error& e) {
      throw Error(at + "/plan" + e.what());
    }
    for (const std::string& warning : its_warnings) warnings.push_back(at + "/plan" + warning);
    plan.smaller.push_back(std::move(sized));
  }
  return plan;
}

}  // namespace

Plan parse_plan(std::string_view text, const ReadPlanOptions& options) {
  const json root = parse_strict_json(text);
  std::vector<std::string> warnings;
  Plan plan = read_fields(root, warnings);
  plan.warnings = std::move(warnings);
  check_plan(plan);
  const std::string identity = identity_of(root);
  if (plan.identity != identity) {
    if (!options.allow_edited)
      throw Error("/identity", plan.identity, identity + ", the hash of this content",
                  "the file was changed after it was made: take it again, or allow edited plans to "
                  "load it unverified");
    plan.edited = true;
    plan.warnings.push_back("/identity: does not match, the plan was edited");
  }
  return plan;
}

Plan read_plan(const std::string& path, const ReadPlanOptions& options) {
  return parse_plan(read_whole_file(path, "plan", kMaxPlanBytes), options);
}

}  // namespace ramp
