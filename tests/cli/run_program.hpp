// SPDX-License-Identifier: Apache-2.0
// Runs the built program as a user would: what it printed, what it complained of, how it ended.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace ramp {

struct ProgramRun {
  int code = -1;
  std::string out, err;
};

// arguments: as typed behind `ramp`, for a shell.
inline ProgramRun run_ramp(const std::string& arguments) {
  std::string folder = (std::filesystem::temp_directory_path() / "ramp-cli-XXXXXX").string();
  if (!::mkdtemp(folder.data())) return {};
  const std::string command = std::string("'") + RAMP_PROGRAM + "' " + arguments + " >" + folder +
                              "/out 2>" + folder + "/err </dev/null";
  const int status = std::system(command.c_str());
  auto text_of = [&](const char* name) {
    std::ifstream in(folder + "/" + name, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  };
  ProgramRun run{WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of("out"), text_of("err")};
  std::filesystem::remove_all(folder);
  return run;
}

}  // namespace ramp
