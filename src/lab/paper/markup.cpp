// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/markup.hpp"

#include <cstdint>

namespace ramp {
namespace {

constexpr const char* kNoCharacter = "\xef\xbf\xbd";  // U+FFFD

// Bytes of the character at the front, 0 where it is none: overlong forms, surrogates and what XML
// has no name for are none.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80)
    return (first >= 0x20 && first != 0x7f) || first == '\n' || first == '\t' ? 1 : 0;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  std::uint32_t code = first & (0x7f >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_none = code < kLeast[size] || code > 0x10ffff ||
                       (code >= 0xd800 && code < 0xe000) || (code & 0xfffe) == 0xfffe;
  return is_none ? 0 : size;
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character_bytes(text.substr(at));
    const char c = text[at];
    if (size == 0)
      out += kNoCharacter;
    else if (size > 1)
      out += text.substr(at, size);
    else
      out += c == '&'    ? "&amp;"
             : c == '<'  ? "&lt;"
             : c == '>'  ? "&gt;"
             : c == '"'  ? "&quot;"
             : c == '\'' ? "&#39;"
                         : std::string(1, c);
    at += size ? size : 1;
  }
  return out;
}

}  // namespace ramp
