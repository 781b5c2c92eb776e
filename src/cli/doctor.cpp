// SPDX-License-Identifier: Apache-2.0
// `ramp doctor`: what this machine has, what it lacks, what that costs and how to get it.  The
// first thing to run when another verb refuses, and the first thing to send with a question.
#include <fmt/format.h>
#include <sqlite3.h>
#include <xxhash.h>
#include <zstd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/build.hpp"
#include "base/error.hpp"
#include "cli/verbs.hpp"
#include "gpu/clocks.hpp"
#include "gpu/compiler.hpp"
#include "gpu/cubin_cache.hpp"
#include "gpu/device.hpp"
#include "gpu/nvrtc.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

// How a part of the machine is missed: without it, what doesn't work, and what mends it.
json missing(const std::string& what, const std::string& cost, const std::string& next) {
  return {{"what", what}, {"cost", cost}, {"next", next}};
}

json examine_driver(json& lacks) {
  std::string why;
  if (!gpu::driver_available(&why)) {
    lacks.push_back(missing(
        "CUDA driver and GPU",
        "no measuring and no kernels here; traces, fits, plans and the CPU reference work",
        "run on a machine with an H200 or another GPU of compute capability 9.0 and its NVIDIA "
        "driver (525 or newer); in a container, start it with its GPUs"));
    return {{"found", false}, {"why", why}};
  }
  const gpu::Driver& driver = gpu::driver();
  return {{"found", true},
          {"path", driver.path},
          {"cuda", fmt::format("{}.{}", driver.version / 1000, driver.version % 1000 / 10)},
          {"version", gpu::kernel_driver_version()}};
}

json examine_gpus(json& lacks) {
  json gpus = json::array();
  if (!gpu::driver_available()) return gpus;
  bool runs = false;
  for (int i = 0; i < gpu::device_count(); ++i) {
    const gpu::DeviceInfo info = gpu::device_info(i);
    const gpu::Clocks clocks(info.uuid);
    json row{{"ordinal", i},
             {"name", info.name},
             {"uuid", info.uuid},
             {"compute_capability", fmt::format("{}.{}", info.cc_major, info.cc_minor)},
             {"runs_kernels", info.runs_sm_90a()},
             {"sms", info.sms},
             {"memory_bytes", info.memory_bytes},
             {"l2_bytes", info.l2_bytes},
             {"smem_per_block", info.smem_per_block_optin}};
    if (const auto sample = clocks.sample()) {
      row["sm_mhz"] = sample->sm_mhz;
      row["max_sm_mhz"] = clocks.max_sm_mhz();
      row["throttle"] = gpu::throttle_names(sample->reasons);
      row["temperature_c"] = sample->temperature_c;
      row["power_limit_w"] = clocks.power_limit_w();
    }
    gpus.push_back(row);
    runs = runs || info.runs_sm_90a();
  }
  if (!runs)
    lacks.push_back(missing("a GPU of compute capability 9.0",
                            "the kernels (sm_90a) don't run on this one",
                            "use an H100, H200 or GH200"));
  return gpus;
}

// Compiles a kernel, because an NVRTC without its builtins is found and yet compiles nothing.
json examine_nvrtc(json& lacks) {
  json result{{"found", gpu::nvrtc_available()}};
  std::string why;
  if (gpu::nvrtc_available(&why)) {
    result["path"] = gpu::nvrtc().path;
    result["version"] = gpu::nvrtc_version();
    try {
      const gpu::Cubin cubin =
          gpu::compile({"doctor", "extern \"C\" __global__ void doctor(int* p) { *p = 1; }"});
      result["compiles_sm_90a"] = true;
      result["seconds"] = cubin.seconds;
      return result;
    } catch (const Error& e) {
      why = e.what();
      result["compiles_sm_90a"] = false;
    }
  }
  result["why"] = why;
  result["candidates"] = gpu::nvrtc_candidates();
  lacks.push_back(missing(
      "NVRTC",
      "kernels are not compiled here; entries of a cache that was filled elsewhere still load",
      "pip install nvidia-cuda-nvrtc, or install the CUDA toolkit 12.3 or newer, or set "
      "RAMP_NVRTC"));
  return result;
}

json examine_nvml(json& lacks) {
  std::string why;
  const std::string path = gpu::nvml_path(&why);
  if (!path.empty()) return {{"found", true}, {"path", path}};
  if (gpu::driver_available())
    lacks.push_back(missing("NVML", "clocks aren't recorded and throttled samples aren't dropped",
                            "install libnvidia-ml.so.1 of the driver (in containers: "
                            "NVIDIA_DRIVER_CAPABILITIES=utility,compute)"));
  return {{"found", false}, {"why", why}};
}

json examine_cache(json& lacks) {
  gpu::CacheOptions options = gpu::cache_options_from_environment();
  options.warn = [](const std::string&) {};  // it is in the report
  const gpu::CubinCache cache(options);
  json result{{"directory", cache.directory()}, {"usable", cache.enabled()}};
  if (cache.enabled()) {
    const gpu::CubinCache::Usage usage = cache.usage();
    result["entries"] = usage.entries;
    result["bytes"] = usage.bytes;
    result["writable"] = cache.writable();
  } else {
    result["why"] = cache.why_disabled();
  }
  if (!cache.enabled() || !cache.writable())
    lacks.push_back(missing("a cache directory of your own",
                            "kernels are compiled again in every run",
                            "set RAMP_CACHE_DIR to a directory that only you can write to"));
  return result;
}

std::string text(const json& object, const char* key) {
  return object.contains(key) ? object[key].get<std::string>() : "";
}

void print(const json& r) {
  const auto line = [](const char* label, const std::string& value) {
    fmt::print("{:<11} {}\n", label, value);
  };
  line("ramp", fmt::format("{} ({})", text(r["build"], "version"), text(r["build"], "commit")));
  const json& driver = r["driver"];
  if (driver["found"])
    line("driver", fmt::format("{} (CUDA {}), {}",
                               text(driver, "version").empty() ? "NVIDIA" : text(driver, "version"),
                               text(driver, "cuda"), text(driver, "path")));
  else
    line("driver", "none");
  for (const json& g : r["gpus"]) {
    std::string row =
        fmt::format("{}: {}, {} SMs, {:.0f} GB, compute capability {}", g["ordinal"].get<int>(),
                    text(g, "name"), g["sms"].get<int>(), g["memory_bytes"].get<double>() / 1e9,
                    text(g, "compute_capability"));
    if (g.contains("sm_mhz"))
      row += fmt::format(", {} of {} MHz, held back by: {}", g["sm_mhz"].get<int>(),
                         g["max_sm_mhz"].get<int>(), text(g, "throttle"));
    line("gpu", row);
  }
  if (r["gpus"].empty()) line("gpu", "none");
  const json& nvrtc = r["nvrtc"];
  if (!nvrtc["found"])
    line("nvrtc",
         fmt::format("none; looked for: {}",
                     fmt::join(nvrtc["candidates"].get<std::vector<std::string>>(), ", ")));
  else if (nvrtc["compiles_sm_90a"])
    line("nvrtc", fmt::format("{}, {}; compiles for sm_90a ({:.2f} s)", text(nvrtc, "version"),
                              text(nvrtc, "path"), nvrtc["seconds"].get<double>()));
  else
    line("nvrtc", fmt::format("{}, {}; DOESN'T COMPILE: {}", text(nvrtc, "version"),
                              text(nvrtc, "path"), text(nvrtc, "why")));
  line("nvml", r["nvml"]["found"] ? text(r["nvml"], "path") : "none");
  const json& cache = r["cache"];
  if (cache["usable"])
    line("cache", fmt::format("{}, {} entries, {:.1f} MB{}", text(cache, "directory"),
                              cache["entries"].get<int>(), cache["bytes"].get<double>() / 1e6,
                              cache["writable"] ? "" : ", READ-ONLY"));
  else
    line("cache", fmt::format("off: {}", text(cache, "why")));
  line("libraries", fmt::format("SQLite {}, zstd {}, xxHash {}", text(r["libraries"], "sqlite"),
                                text(r["libraries"], "zstd"), text(r["libraries"], "xxhash")));
  if (r["missing"].empty()) {
    fmt::print("\nNothing is missing.\n");
    return;
  }
  fmt::print("\nMissing:\n");
  for (const json& m : r["missing"])
    fmt::print("  {}\n    cost: {}\n    next: {}\n", text(m, "what"), text(m, "cost"),
               text(m, "next"));
}

// What --require may name, against what was found.
void require(const std::vector<std::string>& wanted, const json& r) {
  for (const std::string& what : wanted) {
    bool there = false;
    if (what == "nvrtc") there = r["nvrtc"].value("compiles_sm_90a", false);
    if (what == "gpu")
      for (const json& g : r["gpus"]) there = there || g["runs_kernels"].get<bool>();
    if (!there)
      throw Error("--require", what + ", which this machine lacks", "",
                  "see \"Missing\" in the report of `ramp doctor`");
  }
}

}  // namespace

void add_doctor(CLI::App& app) {
  CLI::App* verb = app.add_subcommand(
      "doctor", "What this machine has, what is missing, what that costs and how to get it");
  struct Options {
    bool json = false;
    std::vector<std::string> required;
  };
  auto options = std::make_shared<Options>();
  verb->add_flag("--json", options->json, "The report as one JSON object");
  verb->add_option("--require", options->required,
                   "Exit with 1 unless this is there: gpu (that runs sm_90a), nvrtc")
      ->delimiter(',')
      ->check(CLI::IsMember({"gpu", "nvrtc"}));
  verb->footer(
      "Examples:\n"
      "  ramp doctor                        a report for people\n"
      "  ramp doctor --json | jq .missing   for scripts\n"
      "  ramp doctor --require gpu,nvrtc    the same, and exit code 1 when one is missing\n"
      "Exit code 0 otherwise, whatever is missing: a machine without a GPU is no failure.");
  verb->callback([options] {
    json lacks = json::array();
    json report{{"build", {{"version", build_version()}, {"commit", build_commit()}}},
                {"libraries",
                 {{"sqlite", sqlite3_libversion()},
                  {"zstd", ZSTD_versionString()},
                  {"xxhash", fmt::format("{}.{}.{}", XXH_VERSION_MAJOR, XXH_VERSION_MINOR,
                                         XXH_VERSION_RELEASE)}}}};
    report["driver"] = examine_driver(lacks);
    report["gpus"] = examine_gpus(lacks);
    report["nvrtc"] = examine_nvrtc(lacks);
    report["nvml"] = examine_nvml(lacks);
    report["cache"] = examine_cache(lacks);
    report["missing"] = lacks;
    if (options->json)
      fmt::print("{}\n", report.dump(2));
    else
      print(report);
    std::fflush(stdout);
    require(options->required, report);
  });
}

}  // namespace ramp::cli
