// SPDX-License-Identifier: Apache-2.0
// NumPy's array file, integers only, read in place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ramp {

struct NpyArray {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in elements; Fortran order is a matter of strides
  int item_bytes = 1;
  bool is_signed = false;
  bool is_big_endian = false;
  std::string_view data;  // of the bytes that were parsed: they must outlive the array

  std::int64_t size() const {
    std::int64_t n = 1;
    for (const std::int64_t extent : shape) n *= extent;
    return n;
  }
  std::string dtype() const;
  // element: an offset made of strides.  uint64 above 2^63 comes out negative.
  std::int64_t at(std::int64_t element) const;
};

// Throws Error for what is no array of integers, for more than 8 dimensions and for a shape that
// the bytes don't hold.
NpyArray parse_npy(std::string_view bytes);

}  // namespace ramp
