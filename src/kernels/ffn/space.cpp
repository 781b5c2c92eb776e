// SPDX-License-Identifier: Apache-2.0
#include "kernels/ffn/space.hpp"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace ramp {

namespace {

void require_legal(const FfnConfig& c) {
  if (const char* why = ffn_refusal(c))
    throw Error("configuration", ffn_label(c), why, "`ramp plan verify` lists the legal ones");
}

// The deepest ring with this many staging buffers, 0 if none fits.
int deepest(FfnConfig c) {
  for (c.stages = kFfnMaxStages; c.stages >= 2; --c.stages)
    if (ffn_refusal(c) == nullptr) return c.stages;
  return 0;
}

}  // namespace

bool is_ffn_family(const std::string& name) { return name == "f1" || name == "f3"; }

std::string ffn_family(const FfnConfig& c) { return c.topology == kF3 ? "f3" : "f1"; }

bool runs_ordered(const FfnConfig& c) { return c.topology == kF3; }

std::string ffn_label(const FfnConfig& c) {
  return fmt::format("{}-r{}-c{}-s{}-w{}-{}{}{}", ffn_family(c), c.rows, c.cols, c.stages,
                     c.staging, c.dynamic ? "dynamic" : "static",
                     c.split > 1 ? fmt::format("-x{}", c.split) : "", c.grouped ? "-grouped" : "");
}

std::string ffn_knobs(const FfnConfig& c) {
  nlohmann::ordered_json json;
  json["family"] = ffn_family(c);
  FfnConfig::fields(c, [&](const char* name, int value) { json[name] = value; });
  return json.dump();
}

std::string ffn_literal(const FfnConfig& c) {
  std::string text;
  FfnConfig::fields(c, [&](const char* name, int value) {
    text += fmt::format("{}.{} = {}", text.empty() ? "" : ", ", name, value);
  });
  return fmt::format("{{{}, .topology = {}}}", text, c.topology);
}

FfnConfig ffn_from_knobs(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object())
    throw Error("knobs", text.substr(0, 80), "a JSON object", "re-make the plan with `ramp tune`");
  FfnConfig c;
  const std::string said = json.value("family", "(missing)");
  if (!is_ffn_family(said))
    throw Error("knobs/family", said, kFfnFamilies, "this version runs no other family");
  c.topology = said == "f3" ? kF3 : kF1;
  std::size_t known = 1;
  FfnConfig::fields(c, [&](const char* name, int& value) {
    const auto it = json.find(name);
    if (it == json.end() || !it->is_number_integer())
      throw Error(fmt::format("knobs/{}", name), it == json.end() ? "(missing)" : it->dump(),
                  "an integer", "re-make the plan with `ramp tune`");
    value = it->get<int>();
    ++known;
  });
  if (json.size() != known)
    throw Error("knobs", text.substr(0, 200), "only the known knobs", "update ramp");
  require_legal(c);
  return c;
}

FfnConfig ffn_from_label(const std::string& label) {
  for (const FfnConfig& c : ffn_space())
    if (ffn_label(c) == label) return c;
  throw Error("configuration", label, "a label of the space, e.g. f1-r8-c256-s6-w2-dynamic",
              "`ramp check --list` prints all of them");
}

std::string ffn_occupancy(const FfnConfig& c) {
  return fmt::format("1x{}-c{}-x{}{}", kFfnThreads, c.cols, c.split,
                     c.topology == kF3 ? "-f3" : "");
}

std::vector<FfnConfig> ffn_space() {
  std::vector<FfnConfig> space;
  const auto add = [&](FfnConfig c, int staging, int stages, std::initializer_list<int> claims) {
    c.staging = staging, c.stages = stages;
    for (int dynamic : claims)
      for (int grouped : {0, 1}) {
        c.dynamic = dynamic, c.grouped = grouped;
        if (ffn_refusal(c) == nullptr) space.push_back(c);
      }
  };
  for (int split : kFfnSplits)
    for (int cols : {256, 512})
      for (int rows : {8, 16, 24, 32, 40, 48, 64}) {
        FfnConfig c{.rows = rows, .cols = cols, .split = split};
        c.staging = 2;
        const int two = deepest(c);
        c.staging = 1;
        const int one = deepest(c);
        if (split == 1) {
          if (two >= 3) add(c, 2, two, {0, 1});
          if (two >= 5) add(c, 2, two - 2, {1});
          if (one > two && one >= 2) add(c, 1, one, {1});
        } else if (cols == 256) {
          // A cluster's owned items are dealt out before the routing is known, so those whose
          // expert is empty must be able to take others': claimed only.
          if (two >= 3) add(c, 2, two, {1});
          if (one > two && one >= 2) add(c, 1, one, {1});
        }
      }
  for (int rows : {64, 128}) {
    FfnConfig c{.rows = rows, .staging = 1, .topology = kF3};
    add(c, 1, deepest(c), {0, 1});
    c.split = 2;
    c.dynamic = c.grouped = 1;
    add(c, 1, deepest(c), {1});
  }
  return space;
}

}  // namespace ramp
