// SPDX-License-Identifier: Apache-2.0
// The bytes of a `.rtrace` file that writer and reader agree on (docs/traces.md): private to the
// two, but for the description, which `ramp trace info --json` shows as the file holds it.
#pragma once

#include <xxhash.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "problem/bytes.hpp"
#include "problem/trace.hpp"

namespace ramp::trace_format {

// 0x89 keeps text tools away, the line feed shows a transfer that rewrote line ends.
inline constexpr std::string_view kMagic{"\x89RTRACE\n", 8};
inline constexpr std::string_view kEnd{"RTR.END\n", 8};
inline constexpr std::uint32_t kChunkMagic = 0x4b435452;  // "RTCK"
inline constexpr std::size_t kFileHeaderBytes = 32;
inline constexpr std::size_t kChunkHeaderBytes = 64;
inline constexpr std::size_t kTrailerBytes = 16;
inline constexpr std::uint32_t kMaxInfoBytes = 16u << 20;
inline constexpr std::uint64_t kNoRequest = ~0ull;  // the key of tokens that belong to no request

enum ChunkKind : std::uint16_t { kTokens = 1, kIndex = 2 };

inline std::uint64_t hash_of(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

// A byte holds every id and the padding where E allows; else two.
inline int id_bytes(int experts) { return experts <= 255 ? 1 : 2; }

struct ChunkHeader {
  std::uint16_t kind = 0;
  std::uint64_t payload_bytes = 0;  // as stored, compressed
  std::uint64_t raw_bytes = 0;
  std::uint64_t first_token = 0;
  std::uint32_t tokens = 0;
  std::uint32_t sequence = 0;
  std::uint64_t payload_hash = 0;
  std::uint64_t file_hash =
      0;  // of the description: a chunk of another file is no chunk of this one
};

inline std::string pack(const ChunkHeader& h) {
  ByteWriter out;
  out.put(kChunkMagic);
  out.put(h.kind);
  out.put<std::uint16_t>(0);
  out.put(h.payload_bytes);
  out.put(h.raw_bytes);
  out.put(h.first_token);
  out.put(h.tokens);
  out.put(h.sequence);
  out.put(h.payload_hash);
  out.put(h.file_hash);
  out.put(hash_of(out.view()));
  return out.take();
}

// False where the bytes are no intact chunk header of this file.
inline bool unpack(std::string_view bytes, std::uint64_t file_hash, ChunkHeader& h) {
  if (bytes.size() < kChunkHeaderBytes) return false;
  ByteReader in(bytes.substr(0, kChunkHeaderBytes));
  if (in.get<std::uint32_t>() != kChunkMagic) return false;
  h.kind = in.get<std::uint16_t>();
  in.get<std::uint16_t>();
  h.payload_bytes = in.get<std::uint64_t>();
  h.raw_bytes = in.get<std::uint64_t>();
  h.first_token = in.get<std::uint64_t>();
  h.tokens = in.get<std::uint32_t>();
  h.sequence = in.get<std::uint32_t>();
  h.payload_hash = in.get<std::uint64_t>();
  h.file_hash = in.get<std::uint64_t>();
  const std::uint64_t hash = in.get<std::uint64_t>();
  return hash == hash_of(bytes.substr(0, kChunkHeaderBytes - 8)) && h.file_hash == file_hash;
}

// The description as JSON and back; parsing throws Error.
std::string pack_info(const TraceInfo& info);
TraceInfo unpack_info(std::string_view json);

}  // namespace ramp::trace_format
