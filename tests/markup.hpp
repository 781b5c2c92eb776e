// SPDX-License-Identifier: Apache-2.0
// Test only: whether markup is whole.
#pragma once

#include <string>
#include <vector>

namespace ramp {

// Every tag closes, in order, and attributes are quoted.  What is wrong, or empty; a doctype and a
// style sheet may stand there.
inline std::string what_is_unbalanced(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const size_t end = text.find('>', at);
    if (end == std::string::npos) return "a tag without an end: " + text.substr(at, 40);
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (tag.empty() || tag[0] == '!' || tag.back() == '/') continue;
    size_t quotes = 0;
    for (const char c : tag) quotes += c == '"';
    if (quotes % 2 || tag.find('<') != std::string::npos) return "a broken tag: " + tag;
    const std::string name = tag.substr(0, tag.find_first_of(" \n"));
    if (name[0] != '/') {
      open.push_back(name);
      continue;
    }
    if (open.empty() || "/" + open.back() != name)
      return name + " closes " + (open.empty() ? "nothing" : open.back());
    open.pop_back();
  }
  return open.empty() ? "" : open.back() + " stays open";
}

}  // namespace ramp
