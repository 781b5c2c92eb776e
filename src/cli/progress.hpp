// SPDX-License-Identifier: Apache-2.0
// How far a long verb is and when it ends, on stderr: a bar on a terminal, a plain line every few
// seconds elsewhere.
#pragma once

#include <chrono>
#include <string>

namespace ramp::cli {

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(double done, double total);

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  bool is_terminal_;
  bool drawn_ = false;
  Clock::time_point start_, last_;
};

}  // namespace ramp::cli
