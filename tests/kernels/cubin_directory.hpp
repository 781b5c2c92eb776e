// SPDX-License-Identifier: Apache-2.0
// Where tests keep compiled kernels: beside the program that was built, so that a second run
// compiles nothing and a clean build starts anew.
#pragma once

#include <filesystem>
#include <string>

namespace ramp {

inline std::string test_cubin_directory() {
  const std::filesystem::path path =
      std::filesystem::path(RAMP_PROGRAM).parent_path() / "test-cubins";
  std::filesystem::create_directories(path);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path.string();
}

}  // namespace ramp
