// SPDX-License-Identifier: Apache-2.0
// Test only: runs the built program and keeps what it said; and a measurements file with planted
// times.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "lab/measurements.hpp"
#include "tests/choice/synthetic.hpp"

namespace ramp {

struct Said {
  int code = -1;
  std::string out, err;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

// A folder of one test process, removed with it.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("ramp_choice_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string at(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline const Folder& folder() {
  static const Folder made;
  return made;
}

inline std::string text_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline Said ramp_says(const std::string& arguments) {
  const std::string out = folder().at("out.txt"), err = folder().at("err.txt");
  const int status =
      std::system((std::string(RAMP_PROGRAM) + " " + arguments + " >" + out + " 2>" + err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of_file(out), text_of_file(err)};
}

// Written once a process.
inline const std::string& synthetic_measurements() {
  static const std::string path = [] {
    const std::string made = folder().at("synthetic.rmeas");
    save_measurements(synthetic_space({.skew = 1.5, .noise = 0.01}), made);
    return made;
  }();
  return path;
}

}  // namespace ramp
