// SPDX-License-Identifier: Apache-2.0
#include "gpu/nvrtc.hpp"

#include <dlfcn.h>
#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>

#include "gpu/dynamic_library.hpp"

namespace ramp::gpu {
namespace {

namespace fs = std::filesystem;

// CUDA 13 first: its ptxas is the one that the kernels were tuned with.
constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> expand(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  std::reverse(paths.begin(), paths.end());  // newest version first
  return paths;
}

// The folders of Python packages that a user of this program is likely to have installed the wheel
// into.
std::vector<std::string> python_package_folders() {
  std::vector<std::string> roots;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string root = environment(name); !root.empty()) roots.push_back(root);
  std::error_code ignored;
  fs::path above = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (int i = 0; i < 3 && above.has_relative_path(); ++i, above = above.parent_path())
    roots.push_back((above / ".venv").string());
  if (const std::string home = environment("HOME"); !home.empty())
    roots.push_back(home + "/.local");
  roots.push_back("/usr/local");
  std::vector<std::string> folders;
  for (const std::string& root : roots)
    for (const char* kind : {"site-packages", "dist-packages"})
      for (const std::string& folder : expand(root + "/lib/python3*/" + kind))
        folders.push_back(folder);
  return folders;
}

std::optional<Nvrtc> open_first(const std::vector<std::string>& candidates,
                                std::vector<std::string>& failures) {
  for (const std::string& candidate : candidates) {
    const std::optional<DynamicLibrary> library = DynamicLibrary::open({&candidate, 1}, &failures);
    if (!library) continue;
    Nvrtc table;
    table.path = library->path();
    bool complete = true;
#define RAMP_RESOLVE(name, parameters)                                         \
  table.name = reinterpret_cast<decltype(table.name)>(library->symbol(#name)); \
  complete = complete && table.name;
    RAMP_NVRTC_ENTRY_POINTS(RAMP_RESOLVE)
#undef RAMP_RESOLVE
    table.nvrtcGetErrorString = reinterpret_cast<decltype(table.nvrtcGetErrorString)>(
        library->symbol("nvrtcGetErrorString"));
    if (!complete || !table.nvrtcGetErrorString ||
        table.nvrtcVersion(&table.major, &table.minor) != 0 || table.major < 12) {
      failures.push_back(table.path + ": no NVRTC of CUDA 12 or newer");
      continue;
    }
    // NVRTC opens its builtins by bare name; opened here by path first, they are found wherever
    // NVRTC was.
    const fs::path folder = fs::path(table.path).parent_path();
    const std::string builtins =
        (folder / fmt::format("libnvrtc-builtins.so.{}.{}", table.major, table.minor)).string();
    dlopen(builtins.c_str(), RTLD_NOW | RTLD_GLOBAL);
    return table;
  }
  return std::nullopt;
}

struct Loaded {
  Nvrtc table;
  std::exception_ptr error;
};

const Loaded& loaded() {
  static const Loaded once = [] {
    Loaded result;
    std::vector<std::string> failures;
    if (std::optional<Nvrtc> table = open_first(nvrtc_candidates(), failures)) {
      result.table = *table;
    } else {
      result.error = std::make_exception_ptr(
          Error("NVRTC, which compiles the kernels, was not found (" + failures.front() + ")", "",
                "libnvrtc.so.13 or libnvrtc.so.12 in the loader's path, in a CUDA toolkit or in a "
                "Python environment",
                "pip install nvidia-cuda-nvrtc, or install the CUDA toolkit, or set RAMP_NVRTC to "
                "the file or its "
                "folder; `ramp doctor` shows where it was looked for"));
    }
    return result;
  }();
  return once;
}

}  // namespace

std::vector<std::string> nvrtc_candidates() {
  std::vector<std::string> candidates;
  const auto add_folder = [&](const std::string& folder) {
    for (const char* name : kNames)
      if (std::error_code ignored; fs::exists(fs::path(folder) / name, ignored))
        candidates.push_back((fs::path(folder) / name).string());
  };
  if (const std::string wanted = environment("RAMP_NVRTC"); !wanted.empty()) {
    // Said explicitly: nothing else is tried, or a wrong path would silently compile with another
    // version.
    if (std::error_code ignored; fs::is_directory(wanted, ignored)) {
      add_folder(wanted);
      if (!candidates.empty()) return candidates;
    }
    return {fs::absolute(wanted).string()};
  }
  const std::vector<std::string> packages = python_package_folders();
  for (const std::string name : kNames) {
    candidates.push_back(name);
    std::vector<std::string> folders;
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
      if (const std::string root = environment(variable); !root.empty())
        folders.push_back(root + "/lib64");
    folders.push_back("/usr/local/cuda/lib64");
    for (const std::string& root : expand("/usr/local/cuda-*")) folders.push_back(root + "/lib64");
    for (const std::string& folder : packages)
      for (const char* wheel : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"})
        folders.push_back(folder + "/" + wheel);
    for (const std::string& folder : folders)
      if (std::error_code ignored; fs::exists(folder + "/" + name, ignored))
        candidates.push_back(folder + "/" + name);
  }
  return candidates;
}

const Nvrtc& nvrtc() {
  const Loaded& once = loaded();
  if (once.error) std::rethrow_exception(once.error);
  return once.table;
}

bool nvrtc_available(std::string* why) {
  try {
    nvrtc();
    return true;
  } catch (const Error& e) {
    if (why) *why = e.what();
    return false;
  }
}

std::string nvrtc_version() { return fmt::format("{}.{}", nvrtc().major, nvrtc().minor); }

}  // namespace ramp::gpu
