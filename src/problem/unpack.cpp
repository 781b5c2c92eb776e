// SPDX-License-Identifier: Apache-2.0
#include "problem/unpack.hpp"

#include <zlib.h>

#include <algorithm>

#include "base/error.hpp"
#include "problem/bytes.hpp"

namespace ramp {
namespace {

constexpr std::uint32_t kLocalMark = 0x04034b50, kCentralMark = 0x02014b50, kEndMark = 0x06054b50;

// window_bits: zlib's, 15 + 16 for gzip, -15 for bare deflate.
std::string inflate_all(std::string_view bytes, int window_bits, std::uint64_t max_bytes,
                        const char* what) {
  z_stream stream{};
  if (inflateInit2(&stream, window_bits) != Z_OK)
    throw Error(fmt::format("{}: zlib does not start", what));
  struct Closer {
    z_stream* stream;
    ~Closer() { inflateEnd(stream); }
  } closer{&stream};
  std::string out;
  std::size_t in_at = 0;
  int status = Z_OK;
  while (true) {
    if (stream.avail_in == 0) {
      const std::size_t part = std::min<std::size_t>(bytes.size() - in_at, 1u << 24);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + in_at));
      stream.avail_in = static_cast<uInt>(part);
      in_at += part;
    }
    // Grows by what really comes out, so a small file that claims much gets little.
    const std::size_t old = out.size();
    const std::uint64_t step = std::clamp<std::uint64_t>(old, 1u << 16, 1u << 26);
    out.resize(old + static_cast<std::size_t>(std::min<std::uint64_t>(step, max_bytes + 1 - old)));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + old);
    stream.avail_out = static_cast<uInt>(out.size() - old);
    status = inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
    if (out.size() > max_bytes)
      throw Error(what, fmt::format("more than {} bytes unpacked", max_bytes), "fewer",
                  "check that file");
    if (status == Z_STREAM_END) {
      // gzip files may hold several members one after the other.
      const bool more = window_bits > 15 && (stream.avail_in > 0 || in_at < bytes.size());
      if (!more) return out;
      if (inflateReset(&stream) != Z_OK) break;
      continue;
    }
    if (status != Z_OK && status != Z_BUF_ERROR) break;
    if (stream.avail_in == 0 && in_at == bytes.size() && out.size() == old) break;
  }
  throw Error(what, "damaged or cut short", "an intact file", "get the file again");
}

}  // namespace

bool is_gzip(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x1f' && static_cast<unsigned char>(bytes[1]) == 0x8b;
}
bool is_zip(std::string_view bytes) { return bytes.size() >= 4 && bytes.substr(0, 2) == "PK"; }

std::string gunzip(std::string_view bytes, std::uint64_t max_bytes) {
  return inflate_all(bytes, 15 + 16, max_bytes, "gzip");
}

std::vector<ZipEntry> zip_entries(std::string_view bytes) {
  auto damaged = [](const char* why) {
    return Error("zip", why, "an intact .npz", "get the file again");
  };
  constexpr std::size_t kEndBytes = 22;
  if (bytes.size() < kEndBytes) throw damaged("a file too short for a zip");
  // The end record, behind which a comment of up to 64 KB may stand.
  ByteWriter mark;
  mark.put(kEndMark);
  const std::size_t found = bytes.rfind(mark.view(), bytes.size() - kEndBytes);
  if (found == std::string_view::npos || bytes.size() - found > kEndBytes + 65535)
    throw damaged("no central directory");
  ByteReader end(bytes.substr(found + 4));
  const auto disk = end.get<std::uint16_t>();
  end.get<std::uint16_t>();
  end.get<std::uint16_t>();
  const auto count = end.get<std::uint16_t>();
  end.get<std::uint32_t>();
  const auto directory = end.get<std::uint32_t>();
  if (disk != 0 || count > 4096) throw damaged("more than 4096 entries or several disks");
  if (directory > found) throw damaged("a directory outside the file (zip64 is not read)");
  ByteReader in(bytes.substr(directory, found - directory));
  std::vector<ZipEntry> entries;
  for (int i = 0; i < count; ++i) {
    const auto sign = in.get<std::uint32_t>();
    in.get<std::uint32_t>();  // versions
    const auto flags = in.get<std::uint16_t>();
    ZipEntry entry;
    entry.method = in.get<std::uint16_t>();
    in.get<std::uint32_t>();  // time, date
    entry.crc = in.get<std::uint32_t>();
    entry.packed_bytes = in.get<std::uint32_t>();
    entry.raw_bytes = in.get<std::uint32_t>();
    const auto name_bytes = in.get<std::uint16_t>();
    const auto extra_bytes = in.get<std::uint16_t>();
    const auto comment_bytes = in.get<std::uint16_t>();
    in.get_bytes(8);  // disk, attributes
    entry.offset = in.get<std::uint32_t>();
    entry.name = std::string(in.get_bytes(name_bytes));
    in.get_bytes(static_cast<std::size_t>(extra_bytes) + comment_bytes);
    if (!in.ok() || sign != kCentralMark) throw damaged("a damaged directory");
    if (flags & 1) throw damaged("an encrypted entry");
    if (entry.method != 0 && entry.method != 8)
      throw damaged("a compression other than store and deflate");
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string zip_read(std::string_view bytes, const ZipEntry& entry, std::uint64_t max_bytes) {
  auto damaged = [&](const char* why) {
    return Error("zip entry " + entry.name.substr(0, 80), why, "an intact .npz",
                 "get the file again");
  };
  if (entry.offset > bytes.size()) throw damaged("outside the file");
  ByteReader local(bytes.substr(entry.offset));
  if (local.get<std::uint32_t>() != kLocalMark) throw damaged("no local header");
  local.get_bytes(22);
  const auto name_bytes = local.get<std::uint16_t>();
  const auto extra_bytes = local.get<std::uint16_t>();
  local.get_bytes(static_cast<std::size_t>(name_bytes) + extra_bytes);
  const std::string_view packed = local.get_bytes(entry.packed_bytes);
  if (!local.ok()) throw damaged("cut short");
  if (entry.raw_bytes > max_bytes) throw damaged("too large");
  std::string raw;
  if (entry.method == 0) {
    if (entry.packed_bytes != entry.raw_bytes) throw damaged("sizes that disagree");
    raw.assign(packed);
  } else {
    raw = inflate_all(packed, -15, entry.raw_bytes, "zip entry");
  }
  if (raw.size() != entry.raw_bytes ||
      crc32_z(0, reinterpret_cast<const Bytef*>(raw.data()), raw.size()) != entry.crc)
    throw damaged("a checksum that disagrees");
  return raw;
}

}  // namespace ramp
