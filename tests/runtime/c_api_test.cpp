// SPDX-License-Identifier: Apache-2.0
// The C interface without a GPU: the header is C, structs of other ages are read or refused, errors
// have a status and a text of their thread, and Python's copy of the structs agrees.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "gpu/driver.hpp"
#include "kernels/prepare/state.h"
#include "ramp/ramp.h"
#include "runtime/layer.hpp"
#include "tests/runtime/plan_text.hpp"

namespace {

static_assert(RAMP_MAX_ENTRIES == ramp::kMaxMenu);

struct Outcome {
  int status;
  std::string output;
};

Outcome shell(const std::string& command) {
  Outcome o{-1, ""};
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return o;
  std::array<char, 4096> buffer;
  while (std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    o.output.append(buffer.data(), n);
  o.status = pclose(pipe);
  return o;
}

std::string last_error() { return ramp_last_error(); }

#define EXPECT_SAYS(part) EXPECT_NE(last_error().find(part), std::string::npos) << last_error()

class CApi : public testing::Test {
 protected:
  std::vector<int32_t> map = std::vector<int32_t>(128, -1);
  ramp_layer_options options{};
  ramp_weights weights{};
  ramp_layer* layer = reinterpret_cast<ramp_layer*>(1);

  void SetUp() override {
    options.struct_size = sizeof options;
    options.local_experts = 16;
    options.top_k = 8;
    options.hidden = 2048;
    options.intermediate = 768;
    options.experts = 128;
    weights.struct_size = sizeof weights;
    weights.w13 = reinterpret_cast<void*>(4096);
    weights.s13 = reinterpret_cast<float*>(4096);
    weights.w2 = reinterpret_cast<void*>(4096);
    weights.s2 = reinterpret_cast<float*>(4096);
  }
  ramp_status create() { return ramp_layer_create(&options, &weights, &layer); }
};

TEST_F(CApi, NullPointersAreRefusedByName) {
  EXPECT_EQ(ramp_layer_create(nullptr, &weights, &layer), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("options: got NULL");
  EXPECT_EQ(layer, nullptr) << "no layer after a failure";
  EXPECT_EQ(ramp_layer_create(&options, nullptr, &layer), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("weights: got NULL");
  EXPECT_EQ(ramp_layer_create(&options, &weights, nullptr), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("layer: got NULL");
  size_t bytes = 0;
  EXPECT_EQ(ramp_workspace_bytes(nullptr, 1, &bytes), RAMP_ERROR_ARGUMENT);
  EXPECT_EQ(ramp_call_workspace_bytes(nullptr, nullptr, &bytes), RAMP_ERROR_ARGUMENT);
  EXPECT_EQ(ramp_workspace_init(nullptr, nullptr, nullptr), RAMP_ERROR_ARGUMENT);
  EXPECT_EQ(ramp_layer_forward(nullptr, nullptr), RAMP_ERROR_ARGUMENT);
  EXPECT_EQ(ramp_layer_counters(nullptr, nullptr, nullptr, 0, nullptr), RAMP_ERROR_ARGUMENT);
  const char* json = nullptr;
  EXPECT_EQ(ramp_layer_describe(nullptr, &json), RAMP_ERROR_ARGUMENT);
  ramp_layer_destroy(nullptr);
}

TEST_F(CApi, AStructWithoutItsSizeIsRefused) {
  options.struct_size = 0;
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("options.struct_size: got 0");
  options.struct_size = sizeof options;
  weights.struct_size = 7;
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("weights.struct_size: got 7");
}

TEST_F(CApi, ANewerCallersFieldsAreTakenAsLongAsTheyAreZero) {
  struct {
    ramp_weights known;
    uint64_t unknown[4];
  } newer{weights, {}};
  newer.known.struct_size = sizeof newer;
  options.hidden = 100;  // refused later, and for another reason
  EXPECT_EQ(ramp_layer_create(&options, &newer.known, &layer), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("shape/hidden");
  newer.unknown[2] = 1;
  EXPECT_EQ(ramp_layer_create(&options, &newer.known, &layer), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("unknown to ABI version");
  newer.known.struct_size = std::size_t{1} << 40;
  EXPECT_EQ(ramp_layer_create(&options, &newer.known, &layer), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("weights.struct_size");
}

TEST_F(CApi, UnknownFlagsAreRefused) {
  options.flags = 64;
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("options.flags: got 0x40");
}

TEST_F(CApi, OptionsAreCheckedBeforeAGpuIsAsked) {
  options.intermediate = 200;
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("shape/intermediate: got 200");
  SetUp();
  options.experts = 0;
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("options.experts: got 0");
  SetUp();
  options.experts = 1 << 30;
  options.expert_map = map.data();
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT) << "the map is not read that far";
  EXPECT_SAYS("options.experts");
  SetUp();
  options.expert_map = map.data();
  map[7] = 99;
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("expert_map/7: got 99");
  SetUp();
  options.expert_map = nullptr;
  weights.w2 = reinterpret_cast<void*>(4104);
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("weights/w2");
}

TEST_F(CApi, ThereIsOneOriginOfTheMenu) {
  const char* knobs[] = {"{}"};
  options.knobs = knobs;
  options.plan_text = "{}";
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("more than one of plan_path, plan_text and knobs");
}

TEST_F(CApi, KnobsAreReadEntryByEntry) {
  const std::string good = ramp::example_knobs();
  const char* knobs[] = {good.c_str(), "{\"family\":\"f7\"}"};
  const ramp_theta theta[] = {{1, 1, 1, 1}, {1, 1, 1, 1}};
  options.knobs = knobs;
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("options.num_entries: got 0");
  options.num_entries = 17;
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("options.num_entries: got 17");
  options.num_entries = 2;
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("options.theta: got NULL");
  options.theta = theta;
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("f7");
  knobs[1] = nullptr;
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("options.knobs[1]: got NULL");
}

TEST_F(CApi, APlanIsTakenFromTextAndFromAFileAndHeldAgainstTheShape) {
  const std::string text = ramp::example_plan_text();
  options.plan_text = text.c_str();
  options.hidden = 4096;
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("plan /shape/hidden: got 2048; allowed: 4096");

  const auto path = std::filesystem::temp_directory_path() / "ramp_c_api_test_plan.json";
  std::ofstream(path) << text;
  options.plan_text = nullptr;
  const std::string name = path.string();
  options.plan_path = name.c_str();
  options.hidden = 0;
  options.top_k = 4;
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("plan /shape/top_k: got 8; allowed: 4");
  std::filesystem::remove(path);
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_SAYS("ramp_c_api_test_plan.json");
  options.plan_path = nullptr;
  options.plan_text = "no plan at all";
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_EQ(layer, nullptr);
}

TEST_F(CApi, WithoutADriverGoodOptionsFailWithTheReason) {
  std::string why;
  if (ramp::gpu::driver_available(&why)) GTEST_SKIP() << "this machine has a driver";
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT);
  EXPECT_EQ(last_error(), why);
  const std::string text = ramp::example_plan_text();
  options.plan_text = text.c_str();
  EXPECT_EQ(create(), RAMP_ERROR_ARGUMENT) << "a plan with the default shape is good up to here";
  EXPECT_EQ(last_error(), why);
}

TEST_F(CApi, TheTextIsTheThreadsOwn) {
  EXPECT_EQ(ramp_layer_create(nullptr, &weights, &layer), RAMP_ERROR_ARGUMENT);
  const std::string mine = last_error();
  std::string before, after;
  std::thread([&] {
    before = ramp_last_error();
    ramp_layer_forward(nullptr, nullptr);
    after = ramp_last_error();
  }).join();
  EXPECT_EQ(before, "");
  EXPECT_NE(after, "");
  EXPECT_EQ(last_error(), mine);
}

TEST(CHeader, IsStrictC99) {
  if (shell("cc --version").status != 0) GTEST_SKIP() << "no C compiler";
  const std::string include = std::string(RAMP_SOURCE_DIR) + "/include";
  const Outcome o = shell(
      "printf '#include \"ramp/ramp.h\"\\nint main(void) { ramp_call c = {0}; "
      "c.struct_size = sizeof c; return ramp_abi_version() != RAMP_ABI_VERSION "
      "|| c.tokens; }\\n' | cc -std=c99 -pedantic -Wall -Wextra -Werror -I" +
      include + " -x c -fsyntax-only -");
  EXPECT_EQ(o.status, 0) << o.output;
}

TEST(SharedLibrary, LoadsAloneAndSpeaksThisAbi) {
  const auto path = std::filesystem::path(RAMP_PROGRAM).parent_path() / "libramp.so";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not built";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
  const auto abi = reinterpret_cast<int32_t (*)()>(dlsym(library, "ramp_abi_version"));
  ASSERT_TRUE(abi);
  EXPECT_EQ(abi(), RAMP_ABI_VERSION);
  for (const char* name :
       {"ramp_version", "ramp_last_error", "ramp_layer_create", "ramp_layer_destroy",
        "ramp_layer_describe", "ramp_workspace_bytes", "ramp_call_workspace_bytes",
        "ramp_workspace_init", "ramp_layer_forward", "ramp_layer_counters"})
    EXPECT_TRUE(dlsym(library, name)) << name;
  EXPECT_FALSE(dlsym(library, "_ZN4ramp5Layer7forwardERKNS_9LayerCallE")) << "only the C names";
  dlclose(library);
}

// "Struct.field offset", as ctypes lays them out.
TEST(Python, SeesTheStructsAsCDoes) {
  const std::string script =
      "import sys; sys.path.insert(0, '" + std::string(RAMP_SOURCE_DIR) +
      "/python'); sys.dont_write_bytecode = True\n"
      "from ramp import _lib as l, Error\n"
      "for s in (l.LayerOptions, l.Weights, l.Call, l.Counters, l.Theta):\n"
      "    import ctypes; print(s.__name__, ctypes.sizeof(s))\n"
      "    for f in s._fields_: print(s.__name__ + '.' + f[0], getattr(s, f[0]).offset)\n"
      "print('ABI', l.ABI_VERSION)\nprint('MAX', l.MAX_ENTRIES)\n"
      "print('sized', l.Call().struct_size)\n";
  if (shell("python3 --version").status != 0) GTEST_SKIP() << "no python3";
  const Outcome o = shell("python3 -c \"" + script + "\"");
  ASSERT_EQ(o.status, 0) << o.output;
  std::map<std::string, std::size_t> python, c;
  std::istringstream lines(o.output);
  for (auto [name, value] = std::pair{std::string(), std::size_t{}}; lines >> name >> value;)
    python[name] = value;
#define FIELD(Struct, type, field) c[#Struct "." #field] = offsetof(type, field)
  c["LayerOptions"] = sizeof(ramp_layer_options);
  FIELD(LayerOptions, ramp_layer_options, struct_size);
  FIELD(LayerOptions, ramp_layer_options, flags);
  FIELD(LayerOptions, ramp_layer_options, local_experts);
  FIELD(LayerOptions, ramp_layer_options, top_k);
  FIELD(LayerOptions, ramp_layer_options, hidden);
  FIELD(LayerOptions, ramp_layer_options, intermediate);
  FIELD(LayerOptions, ramp_layer_options, experts);
  FIELD(LayerOptions, ramp_layer_options, first_expert);
  FIELD(LayerOptions, ramp_layer_options, expert_map);
  FIELD(LayerOptions, ramp_layer_options, plan_path);
  FIELD(LayerOptions, ramp_layer_options, plan_text);
  FIELD(LayerOptions, ramp_layer_options, knobs);
  FIELD(LayerOptions, ramp_layer_options, theta);
  FIELD(LayerOptions, ramp_layer_options, num_entries);
  FIELD(LayerOptions, ramp_layer_options, cache_dir);
  c["Weights"] = sizeof(ramp_weights);
  FIELD(Weights, ramp_weights, struct_size);
  FIELD(Weights, ramp_weights, w13);
  FIELD(Weights, ramp_weights, s13);
  FIELD(Weights, ramp_weights, w2);
  FIELD(Weights, ramp_weights, s2);
  c["Call"] = sizeof(ramp_call);
  FIELD(Call, ramp_call, struct_size);
  FIELD(Call, ramp_call, flags);
  FIELD(Call, ramp_call, tokens);
  FIELD(Call, ramp_call, entry);
  FIELD(Call, ramp_call, prefill);
  FIELD(Call, ramp_call, hidden);
  FIELD(Call, ramp_call, ids);
  FIELD(Call, ramp_call, gates);
  FIELD(Call, ramp_call, ready_counts);
  FIELD(Call, ramp_call, output);
  FIELD(Call, ramp_call, workspace);
  FIELD(Call, ramp_call, workspace_bytes);
  FIELD(Call, ramp_call, stream);
  FIELD(Call, ramp_call, hidden_scales);
  FIELD(Call, ramp_call, scale_strides);
  FIELD(Call, ramp_call, slots);
  FIELD(Call, ramp_call, expected_rows);
  c["Counters"] = sizeof(ramp_counters);
  FIELD(Counters, ramp_counters, struct_size);
  FIELD(Counters, ramp_counters, passes);
  FIELD(Counters, ramp_counters, foreign);
  FIELD(Counters, ramp_counters, padded);
  FIELD(Counters, ramp_counters, invalid);
  FIELD(Counters, ramp_counters, duplicate);
  FIELD(Counters, ramp_counters, nan_gates);
  FIELD(Counters, ramp_counters, entry_runs);
  FIELD(Counters, ramp_counters, last_entry);
  FIELD(Counters, ramp_counters, last_rows);
  FIELD(Counters, ramp_counters, last_tiles);
  c["Theta"] = sizeof(ramp_theta);
  FIELD(Theta, ramp_theta, fixed);
  FIELD(Theta, ramp_theta, wave);
  FIELD(Theta, ramp_theta, tile);
  FIELD(Theta, ramp_theta, expert);
  c["ABI"] = RAMP_ABI_VERSION;
  c["MAX"] = RAMP_MAX_ENTRIES;
  c["sized"] = sizeof(ramp_call);
  EXPECT_EQ(python, c);
}

// tests/runtime/candidate_check.py stands in for PyTorch and the library.
TEST(Python, TheBenchmarkCandidateMakesALayerOnceAndOnlyLaunchesAfterwards) {
  if (shell("python3 --version").status != 0) GTEST_SKIP() << "no python3";
  const std::string source(RAMP_SOURCE_DIR);
  const Outcome o =
      shell("python3 -B " + source + "/tests/runtime/candidate_check.py " + source + "/python");
  EXPECT_EQ(o.status, 0) << o.output;
  EXPECT_NE(o.output.find("candidate: 5 checks passed"), std::string::npos) << o.output;
}

TEST(Python, SaysWhereItLookedForTheLibrary) {
  if (shell("python3 --version").status != 0) GTEST_SKIP() << "no python3";
  const Outcome o = shell(
      "RAMP_LIBRARY=/nowhere/libramp.so python3 -B -c \"import sys; "
      "sys.path.insert(0, '" +
      std::string(RAMP_SOURCE_DIR) +
      "/python'); import ramp\ntry: ramp.version()\nexcept ramp.Error as e: "
      "print(e)\"");
  EXPECT_NE(o.output.find("/nowhere/libramp.so"), std::string::npos) << o.output;
  EXPECT_NE(o.output.find("RAMP_LIBRARY"), std::string::npos) << o.output;
}

}  // namespace
