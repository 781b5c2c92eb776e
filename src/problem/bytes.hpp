// SPDX-License-Identifier: Apache-2.0
// Little-endian numbers in and out of byte strings.  Reading never passes the end: it fails, and
// stays failed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace ramp {

class ByteWriter {
 public:
  template <class T>
  void put(T value) {
    static_assert(std::is_integral_v<T>);
    auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      out_.push_back(static_cast<char>(bits & 0xff));
      bits = static_cast<std::make_unsigned_t<T>>(sizeof(T) > 1 ? bits >> 8 : 0);
    }
  }
  void put_bytes(std::string_view bytes) { out_.append(bytes); }
  std::string take() { return std::move(out_); }
  std::size_t size() const { return out_.size(); }
  std::string_view view() const { return out_; }

 private:
  std::string out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T get() {
    static_assert(std::is_integral_v<T>);
    if (remaining() < sizeof(T)) {
      ok_ = false;
      at_ = bytes_.size();
      return 0;
    }
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      bits |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[at_ + i])) << (8 * i);
    at_ += sizeof(T);
    return static_cast<T>(bits);
  }
  std::string_view get_bytes(std::size_t count) {
    if (remaining() < count) {
      ok_ = false;
      at_ = bytes_.size();
      return {};
    }
    const std::string_view part = bytes_.substr(at_, count);
    at_ += count;
    return part;
  }
  std::size_t remaining() const { return bytes_.size() - at_; }
  std::size_t at() const { return at_; }
  bool ok() const { return ok_; }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace ramp
