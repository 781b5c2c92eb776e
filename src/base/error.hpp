// SPDX-License-Identifier: Apache-2.0
// The one exception of the project.  Its text says what was wrong, with which value, what is
// allowed, and what to do next, because the person who reads it has nothing else.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace ramp {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what) : std::runtime_error(what) {}

  // field: the name the user knows (a flag, a JSON pointer, an argument); value: what it held;
  // allowed: what it may hold; next: the step that mends it.  Empty parts are left out.
  Error(const std::string& field, const std::string& value, const std::string& allowed,
        const std::string& next)
      : std::runtime_error(compose(field, value, allowed, next)) {}

 private:
  static std::string compose(const std::string& field, const std::string& value,
                             const std::string& allowed, const std::string& next) {
    std::string text = value.empty() ? field : fmt::format("{}: got {}", field, value);
    if (!allowed.empty()) text += fmt::format("; allowed: {}", allowed);
    if (!next.empty()) text += fmt::format("; next: {}", next);
    return text;
  }
};

}  // namespace ramp
