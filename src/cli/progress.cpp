// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace ramp::cli {
namespace {

constexpr double kTerminalSeconds = 0.2;  // between two drawings
constexpr double kPlainSeconds = 5;
constexpr int kBarWidth = 24;

std::string seconds_text(double s) {
  if (s < 90) return fmt::format("{:.0f} s", s);
  return fmt::format("{:.0f} min {:02.0f} s", static_cast<double>(static_cast<int>(s / 60)),
                     s - 60 * static_cast<int>(s / 60));
}

}  // namespace

Progress::Progress(std::string what)
    : what_(std::move(what)),
      is_terminal_(::isatty(STDERR_FILENO) != 0),
      start_(Clock::now()),
      last_(start_) {}

Progress::~Progress() {
  if (drawn_ && is_terminal_) fmt::print(stderr, "\r\033[K");
}

void Progress::update(double done, double total) {
  const auto now = Clock::now();
  const double since = std::chrono::duration<double>(now - last_).count();
  // The first plain line waits as well: what is done in a moment says nothing.
  if (since < (is_terminal_ ? kTerminalSeconds : kPlainSeconds)) return;
  last_ = now;
  const double share = total > 0 ? std::clamp(done / total, 0.0, 1.0) : 0;
  const double spent = std::chrono::duration<double>(now - start_).count();
  const std::string left = share > 0.01 ? seconds_text(spent / share - spent) + " left" : "";
  if (is_terminal_) {
    const int full = static_cast<int>(share * kBarWidth);
    fmt::print(stderr, "\r\033[K{} [{}{}] {:3.0f} % {}", what_, std::string(full, '#'),
               std::string(kBarWidth - full, '.'), 100 * share, left);
    std::fflush(stderr);
  } else {
    fmt::print(stderr, "{}: {:.0f} % {}\n", what_, 100 * share, left);
  }
  drawn_ = true;
}

}  // namespace ramp::cli
