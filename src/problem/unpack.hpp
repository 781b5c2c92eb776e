// SPDX-License-Identifier: Apache-2.0
// gzip and zip (what NumPy's .npz is): enough to read other people's arrays, with limits before
// every allocation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ramp {

inline constexpr std::uint64_t kMaxUnpackedBytes = 8ull << 30;

bool is_gzip(std::string_view bytes);
bool is_zip(std::string_view bytes);

// Throws Error for damage and for more than max_bytes.
std::string gunzip(std::string_view bytes, std::uint64_t max_bytes = kMaxUnpackedBytes);

struct ZipEntry {
  std::string name;
  std::uint64_t offset = 0;  // of the local header
  std::uint64_t packed_bytes = 0;
  std::uint64_t raw_bytes = 0;
  std::uint32_t crc = 0;
  int method = 0;  // 0 stored, 8 deflated
};

// From the central directory; at most 4096 entries, no zip64, no encryption.
std::vector<ZipEntry> zip_entries(std::string_view bytes);
std::string zip_read(std::string_view bytes, const ZipEntry& entry,
                     std::uint64_t max_bytes = kMaxUnpackedBytes);

}  // namespace ramp
