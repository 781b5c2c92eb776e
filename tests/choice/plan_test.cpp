// SPDX-License-Identifier: Apache-2.0
#include "choice/plan.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "choice/tune.hpp"
#include "tests/choice/synthetic.hpp"
#include "tests/fuzz/plan_fuzz.cpp"

namespace ramp {
namespace {

using nlohmann::json;

Plan example() {
  static const Plan plan = [] {
    Plan p = tune_from(synthetic_space({.noise = 0.01}), {.entries = 3, .menus = 1});
    p.gpu = {"NVIDIA H200", 9, 0, 132, 150754820096LL};
    return p;
  }();
  return plan;
}

std::string what(const std::string& text, const ReadPlanOptions& options = {}) {
  try {
    parse_plan(text, options);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

// The text of a plan after `edit`, read as an edited one, so that the hash doesn't answer before
// the field does.
template <class Edit>
std::string complaint(Edit&& edit) {
  json plan = json::parse(plan_text(example()));
  edit(plan);
  return what(plan.dump(), {.allow_edited = true});
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Plan, ReadsBackAsItWasWritten) {
  const Plan plan = example();
  const std::string text = plan_text(plan);
  const Plan back = parse_plan(text);
  EXPECT_EQ(plan_text(back), text);
  EXPECT_FALSE(back.edited);
  EXPECT_TRUE(back.warnings.empty());
  EXPECT_EQ(back.identity.rfind("xxh3-128:", 0), 0u);
  ASSERT_EQ(back.menu.size(), plan.menu.size());
  for (size_t i = 0; i < plan.menu.size(); ++i) {
    EXPECT_EQ(back.menu[i].theta.fixed, plan.menu[i].theta.fixed);  // the same bits
    EXPECT_EQ(back.menu[i].theta.wave, plan.menu[i].theta.wave);
    EXPECT_EQ(back.menu[i].theta.tile, plan.menu[i].theta.tile);
    EXPECT_EQ(back.menu[i].theta.expert, plan.menu[i].theta.expert);
  }
  EXPECT_EQ(back.gpu.memory_bytes, 150754820096LL);
}

TEST(Plan, EveryThetaKeepsItsBits) {
  Random random(3);
  Plan plan = example();
  for (int trial = 0; trial < 300; ++trial) {
    const auto any = [&] {
      return std::ldexp(random.uniform_float(), static_cast<int>(random.below(250)) - 140);
    };
    plan.menu[0].theta = {any(), any(), any(), any()};
    if (!std::isfinite(plan.menu[0].theta.fixed)) continue;
    const Theta back = parse_plan(plan_text(plan)).menu[0].theta;
    EXPECT_TRUE(back.fixed == plan.menu[0].theta.fixed && back.wave == plan.menu[0].theta.wave &&
                back.tile == plan.menu[0].theta.tile && back.expert == plan.menu[0].theta.expert);
  }
}

TEST(Plan, IsWrittenWholeAndLeavesNothingBeside) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("ramp_plan_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  Plan plan = example();
  write_plan((folder / "a.plan").string(), plan);
  EXPECT_EQ(read_plan((folder / "a.plan").string()).identity, plan.identity);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  EXPECT_THROW(write_plan((folder / "none" / "a.plan").string(), plan), Error);
  EXPECT_THROW(read_plan((folder / "missing.plan").string()), Error);
  EXPECT_THROW(read_plan(folder.string()), Error);
  std::filesystem::remove_all(folder);
}

TEST(Plan, AnIllegalPlanIsNotWritten) {
  Plan plan = example();
  plan.menu[0].theta.wave = -1;
  EXPECT_THROW(plan_text(plan), Error);
  plan = example();
  plan.menu[0].knobs = "{\"rows\": [8]}";
  EXPECT_THROW(write_plan("/nonexistent/x", plan), Error);
  plan.menu[0].knobs = "not json";
  EXPECT_THROW(plan_text(plan), Error);
}

TEST(PlanIdentity, SurvivesReindentingAndFindsEveryEdit) {
  const std::string text = plan_text(example());
  EXPECT_EQ(parse_plan(json::parse(text).dump()).identity, parse_plan(text).identity);
  const json flat = json::parse(text).flatten();
  int edits = 0;
  for (const auto& [pointer, value] : flat.items()) {
    json edited = json::parse(text);
    json& at = edited[json::json_pointer(pointer)];
    if (value.is_number())
      at = value.get<double>() == 1 ? 2 : 1;
    else if (value.is_string())
      at = value.get<std::string>() + "x";
    else
      continue;
    const std::string said = what(edited.dump());
    EXPECT_NE(said, "") << pointer;
    ++edits;
  }
  EXPECT_GT(edits, 60);
}

TEST(PlanIdentity, AnEditedPlanLoadsOnlyWhenAskedAndSaysSo) {
  json edited = json::parse(plan_text(example()));
  edited["menu"][0]["theta"]["fixed_us"] = 77;
  EXPECT_SAYS(what(edited.dump()), "/identity");
  const Plan plan = parse_plan(edited.dump(), {.allow_edited = true});
  EXPECT_TRUE(plan.edited);
  EXPECT_EQ(plan.menu[0].theta.fixed, 77);
  EXPECT_EQ(plan.warnings.size(), 1u);
}

TEST(PlanReader, NamesTheFieldThatIsMissing) {
  const json plan = json::parse(plan_text(example()));
  int fields = 0;
  for (const auto& [name, value] : plan.items()) {
    if (name == "smaller") continue;  // one menu for all sizes has none
    json without = plan;
    without.erase(name);
    EXPECT_SAYS(what(without.dump(), {.allow_edited = true}), "/" + name);
    ++fields;
  }
  EXPECT_EQ(fields, 15);
  EXPECT_SAYS(complaint([](json& p) { p["menu"][1]["theta"].erase("tile_us"); }),
              "/menu/1/theta/tile_us");
  EXPECT_SAYS(complaint([](json& p) { p["gpu"].erase("sms"); }), "/gpu/sms");
}

// Small passes are fast in one class and large ones in the other.
Plan plan_of_menus(int menus) {
  return tune_from(synthetic_space({},
                                   [](const Candidate& c, const std::vector<int>& load) {
                                     const bool small = pairs_of(load) < 64;
                                     const bool its_own = small == (c.occupancy == "two");
                                     return eq3_time(c, load) * (its_own ? 1 : 1.5);
                                   }),
                   {.entries = 2, .menus = menus});
}

Plan plan_of_two_menus() { return plan_of_menus(2); }

TEST(PlanOfManyMenus, HasAtMostAsManyPartsAsAskedInOrderOfTheirLimits) {
  for (int menus = 1; menus <= 4; ++menus) {
    const Plan plan = parse_plan(plan_text(plan_of_menus(menus)));
    EXPECT_LT(int(plan.smaller.size()), menus);
    EXPECT_EQ(plan.smaller.empty(), menus == 1);
    int before = 0;
    for (const auto& part : plan.smaller) {
      EXPECT_GT(part.up_to, before);
      before = part.up_to;
    }
  }
  const Plan plan = plan_of_menus(MenuOptions{}.menus);
  EXPECT_GT(plan.smaller.size(), 1u) << "more than two by default";
  EXPECT_EQ(plan_for(plan, 1).occupancy, "two");
  EXPECT_EQ(plan_for(plan, 4096).occupancy, "one");
}

TEST(PlanOfTwoMenus, ReadsBackAndGivesEveryPassItsPart) {
  const Plan plan = parse_plan(plan_text(plan_of_two_menus()));
  EXPECT_TRUE(plan.warnings.empty());
  ASSERT_EQ(plan.smaller.size(), 1u);
  const int up_to = plan.smaller[0].up_to;
  EXPECT_GT(up_to, 16);
  EXPECT_LT(up_to, 256);
  EXPECT_EQ(plan_for(plan, 1).occupancy, "two");
  EXPECT_EQ(plan_for(plan, up_to).occupancy, "two");
  EXPECT_EQ(plan_for(plan, up_to + 1).occupancy, "one");
  std::vector<int> limits;
  for_each_part(plan, [&](int limit, const Plan&) { limits.push_back(limit); });
  EXPECT_EQ(limits, (std::vector<int>{up_to, 0}));
}

TEST(PlanOfTwoMenus, NamesThePartThatIsWrong) {
  const auto says = [](auto&& edit) {
    json plan = json::parse(plan_text(plan_of_two_menus()));
    edit(plan["smaller"][0], plan);
    return what(plan.dump(), {.allow_edited = true});
  };
  EXPECT_SAYS(says([](json& part, json&) { part["up_to"] = 0; }), "/smaller/0/up_to");
  EXPECT_SAYS(says([](json& part, json&) { part.erase("plan"); }), "/smaller/0/plan");
  EXPECT_SAYS(says([](json& part, json&) { part["plan"]["menu"][0]["theta"]["wave_us"] = -1; }),
              "/smaller/0/plan/menu/0/theta/wave_us");
  EXPECT_SAYS(says([](json& part, json&) { part["plan"]["menu"][0].erase("label"); }),
              "/smaller/0/plan/menu/0/label");
  EXPECT_SAYS(says([](json& part, json&) { part["plan"]["shape"]["hidden"] = 4096; }),
              "/smaller/0/plan/shape");
  EXPECT_SAYS(says([](json& part, json& plan) { part["plan"]["smaller"] = plan["smaller"]; }),
              "/smaller/0/plan/smaller");
  EXPECT_SAYS(says([](json& part, json& plan) { plan["smaller"].push_back(part); }),
              "/smaller/1/up_to");
  EXPECT_SAYS(says([](json&, json& plan) { plan["smaller"] = 3; }), "/smaller");
}

TEST(PlanReader, NamesTheFieldThatIsWrong) {
  EXPECT_SAYS(complaint([](json& p) { p["menu"][1]["theta"]["wave_us"] = -0.5; }),
              "/menu/1/theta/wave_us");
  EXPECT_SAYS(complaint([](json& p) { p["menu"][1]["theta"]["wave_us"] = "fast"; }),
              "/menu/1/theta/wave_us");
  EXPECT_SAYS(complaint([](json& p) { p["menu"][1]["theta"]["wave_us"] = 1e300; }),
              "/menu/1/theta/wave_us");
  EXPECT_SAYS(complaint([](json& p) { p["menu"][0]["grid"][0]["rows"] = 0; }),
              "/menu/0/grid/0/rows");
  EXPECT_SAYS(complaint([](json& p) { p["menu"][0]["grid"][0]["rows"] = 8.5; }),
              "/menu/0/grid/0/rows");
  EXPECT_SAYS(complaint([](json& p) { p["menu"][0]["grid"] = json::array(); }), "/menu/0/grid");
  EXPECT_SAYS(complaint([](json& p) { p["menu"][1]["label"] = p["menu"][0]["label"]; }),
              "/menu/1/label");
  EXPECT_SAYS(complaint([](json& p) { p["menu"] = json::array(); }), "/menu");
  EXPECT_SAYS(complaint([](json& p) { p["menu"] = json::object(); }), "/menu");
  EXPECT_SAYS(complaint([](json& p) { p["mode"] = "quick"; }), "/mode");
  EXPECT_SAYS(complaint([](json& p) { p["shape"]["experts"] = 1 << 20; }), "/shape/experts");
  EXPECT_SAYS(complaint([](json& p) { p["gpus"] = 5000000000; }), "/gpus");
  EXPECT_SAYS(complaint([](json& p) { p["gpu"]["memory_bytes"] = 18446744073709551615ull; }),
              "/gpu/memory_bytes");
  EXPECT_SAYS(complaint([](json& p) { p["gpu"]["compute_capability"] = {9}; }),
              "/gpu/compute_capability");
  EXPECT_SAYS(complaint([](json& p) { p["batch_table"][0]["entry"] = 99; }),
              "/batch_table/0/entry");
  EXPECT_SAYS(complaint([](json& p) { p["batch_table"][1]["tokens"] = 0; }),
              "/batch_table/1/tokens");
  EXPECT_SAYS(complaint([](json& p) {
                p["menu"][0]["knobs"]["code"] = {{"run", 1}};
              }),
              "/menu/0/knobs/code");
  EXPECT_SAYS(complaint([](json& p) {
                for (const char* term : {"fixed_us", "wave_us", "tile_us", "expert_us"})
                  p["menu"][0]["theta"][term] = 0;
              }),
              "/menu/0/theta");
  EXPECT_SAYS(complaint([](json& p) { p["quality"]["gap"] = "small"; }), "/quality/gap");
}

TEST(PlanReader, RefusesOtherFormatsAndNewerVersionsAndWarnsOfNewerFields) {
  EXPECT_SAYS(complaint([](json& p) { p["format"] = "soup"; }), "/format");
  EXPECT_SAYS(complaint([](json& p) { p["version"] = 2; }), "update ramp");
  json newer = json::parse(plan_text(example()));
  newer["revision"] = 3;
  newer["menu"][0]["colour"] = "red";
  const Plan plan = parse_plan(newer.dump(), {.allow_edited = true});
  ASSERT_EQ(plan.warnings.size(), 3u);
  EXPECT_SAYS(plan.warnings[0], "/revision");
  EXPECT_SAYS(plan.warnings[1], "/menu/0/colour");
}

TEST(PlanReader, LimitsComeBeforeAllocation) {
  EXPECT_SAYS(what(std::string(3 << 20, ' ')), "bytes");
  EXPECT_SAYS(what(std::string(100000, '[')), "nesting");
  std::string deep_objects;
  for (int i = 0; i < 50000; ++i) deep_objects += "{\"a\":";
  EXPECT_SAYS(what(deep_objects), "nesting");
  std::string many = "[0";
  for (int i = 0; i < 100000; ++i) many += ",0";
  EXPECT_SAYS(what(many + "]"), "items");
  EXPECT_SAYS(what("{\"model\":\"" + std::string(100000, 'a') + "\"}"), "text of 100000 bytes");
}

TEST(PlanReader, RefusesWhatJsonLeavesOpen) {
  EXPECT_SAYS(what("{\"model\":\"a\",\"model\":\"b\"}"), "/model");
  EXPECT_SAYS(what("{\"model\":\"a\\u0007\"}"), "control character");
  EXPECT_SAYS(what("{\"model\":\"\xff\xfe\"}"), "byte");
  EXPECT_SAYS(what("{\"model\":1e999}"), "byte");
  EXPECT_SAYS(what("{\"model\":NaN}"), "byte");
  EXPECT_SAYS(what(plan_text(example()) + "{}"), "byte");
  EXPECT_SAYS(what(""), "byte");
  EXPECT_SAYS(what("[]"), "an object");
  EXPECT_SAYS(what("7"), "an object");
  const std::string text = plan_text(example());
  for (size_t cut = 0; cut + 2 < text.size(); cut += 37)
    EXPECT_NE(what(text.substr(0, cut)), "") << cut;
}

// A second of what the fuzzer does for longer: bytes flipped, dropped, doubled and spliced, digits
// changed.
TEST(PlanReader, SurvivesSeededMutations) {
  const std::string text = plan_text(example());
  Random random(2026);
  for (int tried = 0; tried < 400; ++tried) {
    std::string mutant = text;
    for (int edits = 1 + static_cast<int>(random.below(4)); edits > 0 && !mutant.empty(); --edits) {
      const size_t at = random.below(mutant.size()), length = 1 + random.below(30);
      switch (random.below(5)) {
        case 0:
          mutant[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          mutant.erase(at, length);
          break;
        case 2:
          mutant.insert(at, mutant.substr(random.below(mutant.size()), length));
          break;
        case 3:
          mutant.insert(at, std::string(1, "{}[]\",:-0123456789e."[random.below(20)]));
          break;
        default:
          if (std::isdigit(static_cast<unsigned char>(mutant[at])))
            mutant[at] = static_cast<char>('0' + random.below(10));
      }
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(mutant.data()), mutant.size());
  }
}

TEST(Plan, CarriesWhereItComesFrom) {
  const MeasuredSpace space = synthetic_space();
  const Plan plan = tune_from(space);
  EXPECT_EQ(plan.model, "synthetic");
  EXPECT_EQ(plan.layout, "ep8");
  EXPECT_EQ(plan.gpu.name, "simulated");
  EXPECT_EQ(plan.provenance.routing, "generated: test");
  EXPECT_EQ(plan.provenance.measurements, space_hash(space));
  MeasuredSpace other = space;
  other.samples[2][3][1] += 0.5f;
  EXPECT_NE(space_hash(other), space_hash(space));
  other = space;
  other.passes[0].role = Role::kTest;
  EXPECT_NE(space_hash(other), space_hash(space));
}

}  // namespace
}  // namespace ramp
