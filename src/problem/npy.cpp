// SPDX-License-Identifier: Apache-2.0
#include "problem/npy.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "problem/bytes.hpp"

namespace ramp {
namespace {

constexpr std::string_view kMagic{"\x93NUMPY", 6};
constexpr std::size_t kMaxHeaderBytes = 1u << 16;

// The header is a Python dict of three keys: {'descr': '<i4', 'fortran_order': False, 'shape': (2,
// 3), }.
struct Header {
  std::string descr;
  std::optional<bool> fortran;
  std::optional<std::vector<std::int64_t>> shape;
};

class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  bool parse(Header& header) {
    if (!take('{')) return false;
    while (!take('}')) {
      std::string key;
      if (!quoted(key) || !take(':')) return false;
      if (key == "descr") {
        if (!quoted(header.descr)) return false;  // a list here is a structured array
      } else if (key == "fortran_order") {
        if (take_word("True"))
          header.fortran = true;
        else if (take_word("False"))
          header.fortran = false;
        else
          return false;
      } else if (key == "shape") {
        if (!tuple(header.shape.emplace())) return false;
      } else {
        return false;
      }
      if (!take(',') && peek() != '}') return false;
    }
    return true;
  }

 private:
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    peek();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  bool quoted(std::string& out) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return false;
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return false;
    out = std::string(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return true;
  }
  bool tuple(std::vector<std::int64_t>& out) {
    if (!take('(')) return false;
    while (!take(')')) {
      if (peek() < '0' || peek() > '9') return false;
      std::int64_t value = 0;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
        if (value > (std::int64_t{1} << 52)) return false;
        value = value * 10 + (text_[at_++] - '0');
      }
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote 3L
      out.push_back(value);
      if (out.size() > 8) return false;
      if (!take(',') && peek() != ')') return false;
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string NpyArray::dtype() const {
  return fmt::format("{}int{}", is_signed ? "" : "u", 8 * item_bytes);
}

std::int64_t NpyArray::at(std::int64_t element) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(data.data()) + element * item_bytes;
  std::uint64_t bits = 0;
  for (int i = 0; i < item_bytes; ++i) {
    const int from = is_big_endian ? item_bytes - 1 - i : i;
    bits |= static_cast<std::uint64_t>(bytes[from]) << (8 * i);
  }
  if (is_signed && item_bytes < 8 && (bits >> (8 * item_bytes - 1)) != 0)
    bits |= ~0ull << (8 * item_bytes);
  return static_cast<std::int64_t>(bits);
}

NpyArray parse_npy(std::string_view bytes) {
  auto refuse = [](const std::string& value, const char* allowed) {
    return Error("npy", value, allowed,
                 "save the ids as an integer array, for example uint8 [layer, token, k]");
  };
  if (bytes.substr(0, kMagic.size()) != kMagic)
    throw refuse("a file without NumPy's mark", "a .npy file");
  ByteReader in(bytes);
  in.get_bytes(kMagic.size());
  const auto major = in.get<std::uint8_t>();
  in.get<std::uint8_t>();
  if (major < 1 || major > 3) throw refuse(fmt::format("version {}", major), "1, 2 or 3");
  const std::size_t header_bytes = major == 1 ? in.get<std::uint16_t>() : in.get<std::uint32_t>();
  if (header_bytes > kMaxHeaderBytes)
    throw refuse(fmt::format("a header of {} bytes", header_bytes), "at most 64 KB");
  const std::string_view text = in.get_bytes(header_bytes);
  Header header;
  if (!in.ok() || !HeaderParser(text).parse(header) || !header.fortran || !header.shape)
    throw refuse("a header that is not of a plain array", "a dict of descr, fortran_order, shape");
  NpyArray array;
  const std::string& d = header.descr;
  if (d.size() != 3 || (d[0] != '<' && d[0] != '>' && d[0] != '|') ||
      (d[1] != 'i' && d[1] != 'u') || (d[2] != '1' && d[2] != '2' && d[2] != '4' && d[2] != '8'))
    throw refuse("dtype '" + d.substr(0, 20) + "'", "integers of 1, 2, 4 or 8 bytes");
  array.is_big_endian = d[0] == '>';
  array.is_signed = d[1] == 'i';
  array.item_bytes = d[2] - '0';
  array.shape = *header.shape;
  const std::uint64_t room = in.remaining() / array.item_bytes;
  std::uint64_t elements = 1;
  for (const std::int64_t extent : array.shape) {
    if (extent != 0 && elements > room / static_cast<std::uint64_t>(extent))
      throw refuse(fmt::format("a shape larger than its {} elements", room), "a whole file");
    elements *= static_cast<std::uint64_t>(extent);
  }
  if (in.remaining() != elements * array.item_bytes)
    throw refuse(fmt::format("{} bytes of data for {} elements", in.remaining(), elements),
                 "a whole file");
  array.data = in.get_bytes(in.remaining());
  array.strides.assign(array.shape.size(), 0);
  if (elements == 0) return array;
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < array.shape.size(); ++i) {
    const std::size_t axis = *header.fortran ? i : array.shape.size() - 1 - i;
    array.strides[axis] = stride;
    stride *= array.shape[axis];
  }
  return array;
}

}  // namespace ramp
