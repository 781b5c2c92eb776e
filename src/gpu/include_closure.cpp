// SPDX-License-Identifier: Apache-2.0
#include "gpu/include_closure.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

namespace ramp::gpu {
namespace {

std::string_view trim_left(std::string_view text) {
  const std::size_t at = text.find_first_not_of(" \t");
  return at == std::string_view::npos ? std::string_view{} : text.substr(at);
}

// The name that an #include line gives; nothing for other lines; "" for an include that isn't
// written out.
std::optional<std::string> included_name(std::string_view line) {
  line = trim_left(line);
  if (line.empty() || line[0] != '#') return std::nullopt;
  line = trim_left(line.substr(1));
  if (!line.starts_with("include")) return std::nullopt;
  line = trim_left(line.substr(7));
  const char close = line.starts_with("\"") ? '"' : line.starts_with("<") ? '>' : '\0';
  if (!close) return "";
  line.remove_prefix(1);
  const std::size_t end = line.find(close);
  return end == std::string_view::npos ? "" : std::string(line.substr(0, end));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> reachable_headers(const CompileRequest& request) {
  std::map<std::string_view, const std::string*> all;
  for (const auto& [name, text] : request.headers) all.emplace(name, &text);
  std::map<std::string_view, const std::string*> reached;
  std::vector<std::string_view> open{request.source};
  bool computed = false;
  while (!open.empty() && !computed) {
    std::string_view text = open.back();
    open.pop_back();
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      const std::optional<std::string> name = included_name(text.substr(0, end));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      if (!name) continue;
      computed = computed || name->empty();
      const auto found = all.find(*name);
      if (found != all.end() && reached.emplace(found->first, found->second).second)
        open.push_back(*found->second);
    }
  }
  std::vector<std::pair<std::string, std::string>> result;
  for (const auto& [name, text] : computed ? all : reached) result.emplace_back(name, *text);
  return result;
}

}  // namespace ramp::gpu
