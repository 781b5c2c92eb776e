// SPDX-License-Identifier: Apache-2.0
// The container of routing traces, `.rtrace` (docs/traces.md has the bytes).  A file is a header
// with the trace's description, then chunks that each stand alone: some tokens, the requests and
// passes they belong to, compressed, with checksums of header and payload.  An index closes it.  A
// reader needs no index: a file cut by a crash gives every whole chunk, a damaged chunk costs its
// own tokens, and the health report says how many.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "problem/trace.hpp"

namespace ramp {

inline constexpr std::uint16_t kTraceVersionMajor = 1;  // a newer major is refused
inline constexpr std::uint16_t kTraceVersionMinor = 0;  // a newer minor is read
inline constexpr int kTraceChunkTokens = 4096;

// Some tokens of one request, in the order they were routed.
struct TraceSegment {
  std::uint64_t request = 0;  // any number that tells requests of this file apart
  std::string domain;
  int tokens = 0;
  int prompt = 0;  // how many of them, from the front, are prompt tokens
};

// Appends to `path`.part; close() completes the file and gives it its name.  What a crash leaves is
// the .part file, readable up to its last whole chunk.
class TraceWriter {
 public:
  TraceWriter(const std::filesystem::path& path, const TraceInfo& info, int level = 9);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // ids: [segment.tokens][layer][k].
  void append(const TraceSegment& segment, std::span<const std::int16_t> ids);
  // Tokens of no known request.
  void append_anonymous(std::span<const std::int16_t> ids);
  // The tokens since the last end were one forward pass.
  void end_pass();
  // Writes what is buffered as a chunk and asks the disk to keep it.
  void flush();
  void close();
  std::int64_t tokens() const { return tokens_; }

 private:
  struct Run;
  void write_chunk();
  void put(std::string_view bytes);
  void append_run(std::uint64_t request, int domain, int tokens, int prompt,
                  std::span<const std::int16_t> ids);

  std::filesystem::path path_, part_;
  TraceInfo info_;
  int level_;
  std::FILE* file_ = nullptr;
  std::uint64_t offset_ = 0;
  std::uint64_t file_hash_ = 0;
  std::int64_t tokens_ = 0;        // appended
  std::int64_t written_ = 0;       // in chunks
  std::vector<Run> runs_;          // of the chunk being filled
  std::vector<std::int16_t> ids_;  // of the chunk being filled
  std::vector<std::uint32_t> pass_ends_;
  std::vector<std::string> domain_names_;
  std::unordered_map<std::string, int> domains_;
  struct IndexEntry {
    std::uint64_t offset;
    std::int64_t first;
    std::uint32_t tokens;
  };
  std::vector<IndexEntry> index_;
};

// Numbers of a file may not ask for more than this.
struct TraceLimits {
  std::uint64_t max_file_bytes = 64ull << 30;
  std::uint64_t max_ids = 4ull << 30;            // in memory, 2 bytes each
  std::uint64_t max_chunk_bytes = 256ull << 20;  // of one chunk, uncompressed
  std::uint64_t max_ratio = 4096;  // uncompressed over compressed, beyond the first MiB
  std::uint64_t max_requests = 64ull << 20;
};

struct TraceHealth {
  bool closed = false;  // the index is there: the writer finished
  std::uint64_t file_bytes = 0;
  std::uint64_t lost_bytes = 0;  // of damaged chunks and of a tail that is no chunk
  std::int64_t lost_tokens = 0;  // known from the chunks around a damaged one, or from the index
  int chunks = 0;
  int damaged_chunks = 0;
  std::string reason;  // of the first damage
  bool whole() const { return closed && damaged_chunks == 0 && lost_bytes == 0; }
  std::string text() const;  // one line for people
};

struct ReadTrace {
  RoutingTrace trace;
  TraceHealth health;
};

// Throws Error for what is no trace, a newer major version, a damaged header, or limits passed.
// Damage after the header is reported in `health`.
ReadTrace read_trace(const std::filesystem::path& path, const TraceLimits& limits = {});
ReadTrace read_trace_bytes(std::string_view bytes, const TraceLimits& limits = {});

// The whole trace in one go: a request at a time, or pass by pass where it has passes.
void write_trace(const RoutingTrace& trace, const std::filesystem::path& path, int level = 9);

}  // namespace ramp
