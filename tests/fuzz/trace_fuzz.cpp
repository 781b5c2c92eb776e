// SPDX-License-Identifier: Apache-2.0
// libFuzzer on the trace container: whatever the bytes, the reader gives a consistent trace or
// throws Error.  Checksums would keep a fuzzer out of everything behind them, so half of the inputs
// are put into chunks with the right ones.
#include <zstd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "problem/trace_file.hpp"
#include "problem/trace_format.hpp"

namespace {

using namespace ramp::trace_format;

// A file with two chunks of these bytes, uncompressed and of that many tokens, under a sound
// header.
std::string file_around(std::string_view raw, std::uint32_t tokens, std::uint64_t first_token) {
  ramp::TraceInfo info;
  info.experts = 16;
  info.top_k = 2;
  info.layers = {0, 1};
  const std::string text = pack_info(info);
  ramp::ByteWriter out;
  out.put_bytes(kMagic);
  out.put(ramp::kTraceVersionMajor);
  out.put(ramp::kTraceVersionMinor);
  out.put(static_cast<std::uint32_t>(text.size()));
  out.put(hash_of(text));
  out.put(hash_of(out.view()));
  out.put_bytes(text);
  std::string payload(ZSTD_compressBound(raw.size()), '\0');
  payload.resize(ZSTD_compress(payload.data(), payload.size(), raw.data(), raw.size(), 1));
  for (int i = 0; i < 2; ++i) {
    ChunkHeader header;
    header.kind = kTokens;
    header.payload_bytes = payload.size();
    header.raw_bytes = raw.size();
    header.first_token = i * first_token;
    header.tokens = tokens;
    header.payload_hash = hash_of(payload);
    header.file_hash = hash_of(text);
    out.put_bytes(pack(header));
    out.put_bytes(payload);
  }
  return out.take();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ramp::TraceLimits limits;
  limits.max_ids = 1u << 22;
  limits.max_chunk_bytes = 1u << 22;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::string wrapped;
  if (size > 3 && data[0] != 0x89) {
    // The first byte: tokens of a chunk; the second: where the second chunk claims to begin.
    wrapped = file_around(bytes.substr(2), data[0], data[1]);
    bytes = wrapped;
  }
  ramp::ReadTrace read;
  try {
    read = ramp::read_trace_bytes(bytes, limits);
  } catch (const ramp::Error&) {
    return 0;
  }
  // What was accepted holds together: a complaint here is a finding.
  try {
    ramp::check_trace(read.trace);
  } catch (const ramp::Error&) {
    std::abort();
  }
  return 0;
}
