// SPDX-License-Identifier: Apache-2.0
// Reading `.rtrace`: every number is checked before anything is allocated for it, damage costs only
// what it hit.
#include <zstd.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "problem/text_file.hpp"
#include "problem/trace_file.hpp"
#include "problem/trace_format.hpp"

namespace ramp {

using namespace trace_format;

namespace {

// Tokens of one request that stand together in the file.
struct Run {
  std::uint64_t request;
  int domain;
  std::int64_t first;
  int tokens;
  int prompt;
};

struct TokenChunk {
  std::vector<std::string> domains;
  std::vector<Run> runs;  // domain: local, first: inside the chunk
  std::vector<std::uint32_t> pass_ends;
  std::string_view ids;  // [layer][token][k]
};

class Reader {
 public:
  Reader(std::string_view bytes, const TraceLimits& limits) : bytes_(bytes), limits_(limits) {}

  ReadTrace read() {
    read_file_header();
    scan_chunks();
    drop_broken_passes();
    build_requests();
    return std::move(out_);
  }

 private:
  RoutingTrace& trace() { return out_.trace; }
  TraceHealth& health() { return out_.health; }

  void read_file_header() {
    health().file_bytes = bytes_.size();
    if (bytes_.substr(0, kMagic.size()) != kMagic)
      throw Error("trace", "a file without the mark of a trace", "a .rtrace file",
                  "turn other formats into one with: ramp trace import");
    ByteReader in(bytes_.substr(0, kFileHeaderBytes));
    in.get_bytes(kMagic.size());
    const auto major = in.get<std::uint16_t>();
    in.get<std::uint16_t>();  // a newer minor adds only what older readers may pass over
    const auto info_bytes = in.get<std::uint32_t>();
    const auto info_hash = in.get<std::uint64_t>();
    const auto header_hash = in.get<std::uint64_t>();
    if (in.ok() && major != kTraceVersionMajor)
      throw Error("trace version", fmt::format("{}", major), fmt::format("{}", kTraceVersionMajor),
                  "read it with the ramp that wrote it, or a newer one");
    if (!in.ok() || header_hash != hash_of(bytes_.substr(0, kFileHeaderBytes - 8)))
      throw Error("trace header", "damaged", "an intact header", "get the file again");
    if (info_bytes > kMaxInfoBytes || info_bytes > bytes_.size() - kFileHeaderBytes)
      throw Error("trace header", fmt::format("a description of {} bytes", info_bytes),
                  fmt::format("at most {} of this file", bytes_.size() - kFileHeaderBytes),
                  "get the file again");
    const std::string_view info = bytes_.substr(kFileHeaderBytes, info_bytes);
    if (hash_of(info) != info_hash)
      throw Error("trace description", "damaged", "an intact one", "get the file again");
    trace().info = unpack_info(info);
    file_hash_ = info_hash;
    at_ = kFileHeaderBytes + info_bytes;
  }

  void damage(std::size_t from, std::size_t to, const std::string& reason) {
    health().lost_bytes += to - from;
    if (health().reason.empty()) health().reason = fmt::format("{} at byte {}", reason, from);
  }

  void scan_chunks() {
    while (at_ < bytes_.size()) {
      ChunkHeader header;
      if (!unpack(bytes_.substr(at_), file_hash_, header)) {
        // Not a chunk: look for the next one, which its mark, checksum and file hash tell from
        // chance.
        const std::size_t next = find_chunk(at_ + 1);
        damage(at_, next,
               next == bytes_.size() ? "the file ends inside a chunk" : "a damaged chunk header");
        health().damaged_chunks += next != bytes_.size();
        at_ = next;
        continue;
      }
      const std::size_t payload_at = at_ + kChunkHeaderBytes;
      if (header.payload_bytes > bytes_.size() - payload_at) {
        damage(at_, bytes_.size(), "the file ends inside a chunk");
        at_ = bytes_.size();
        note_gap(header);
        break;
      }
      const std::string_view payload = bytes_.substr(payload_at, header.payload_bytes);
      const std::size_t end = payload_at + header.payload_bytes;
      if (header.kind == kIndex) {
        read_index(header, payload, end);
        continue;
      }
      if (header.kind != kTokens) {  // of a newer minor version
        at_ = end;
        continue;
      }
      note_gap(header);
      std::string why;
      if (!read_tokens(header, payload, why)) {
        damage(at_, end, why);
        ++health().damaged_chunks;
        health().lost_tokens += header.tokens;
        gaps_.push_back(tokens_);
      } else {
        ++health().chunks;
      }
      expected_token_ = header.first_token + header.tokens;
      at_ = end;
    }
  }

  std::size_t find_chunk(std::size_t from) const {
    ByteWriter mark;
    mark.put(kChunkMagic);
    for (std::size_t at = bytes_.find(mark.view(), from); at != std::string_view::npos;
         at = bytes_.find(mark.view(), at + 1)) {
      ChunkHeader header;
      if (unpack(bytes_.substr(at), file_hash_, header)) return at;
    }
    return bytes_.size();
  }

  // A chunk's first token against the tokens seen: the difference was lost.
  void note_gap(const ChunkHeader& header) {
    if (header.first_token > expected_token_ &&
        header.first_token - expected_token_ < (1ull << 40)) {
      health().lost_tokens += static_cast<std::int64_t>(header.first_token - expected_token_);
      gaps_.push_back(tokens_);
    }
    expected_token_ = header.first_token;
  }

  void read_index(const ChunkHeader& header, std::string_view payload, std::size_t end) {
    note_gap(header);
    ByteReader trailer(bytes_.substr(std::min(end, bytes_.size())));
    const auto index_at = trailer.get<std::uint64_t>();
    const std::string_view mark = trailer.get_bytes(kEnd.size());
    health().closed =
        hash_of(payload) == header.payload_hash && trailer.ok() && mark == kEnd && index_at == at_;
    if (!health().closed) damage(at_, bytes_.size(), "a damaged index");
    // Nothing of this trace follows its index.
    else if (trailer.remaining() > 0)
      damage(end + kTrailerBytes, bytes_.size(), "bytes after the end");
    at_ = bytes_.size();
  }

  bool read_tokens(const ChunkHeader& header, std::string_view payload, std::string& why) {
    if (hash_of(payload) != header.payload_hash) return why = "a damaged chunk", false;
    const std::uint64_t ids =
        static_cast<std::uint64_t>(header.tokens) * static_cast<std::uint64_t>(trace().row_ids());
    const std::uint64_t ids_bytes =
        ids * static_cast<std::uint64_t>(id_bytes(trace().info.experts));
    if (header.raw_bytes > limits_.max_chunk_bytes || ids_bytes > header.raw_bytes ||
        header.raw_bytes > (1ull << 20) + limits_.max_ratio * header.payload_bytes)
      return why = fmt::format("a chunk that claims {} bytes", header.raw_bytes), false;
    if (trace().ids.size() + ids > limits_.max_ids ||
        tokens_ + header.tokens > std::numeric_limits<std::int32_t>::max())
      throw Error("trace", fmt::format("more than {} expert ids", limits_.max_ids), "fewer",
                  "raise the limit, or cut the trace");
    if (ZSTD_getFrameContentSize(payload.data(), payload.size()) != header.raw_bytes)
      return why = "a chunk whose sizes disagree", false;
    std::string raw(header.raw_bytes, '\0');
    const std::size_t got = ZSTD_decompress(raw.data(), raw.size(), payload.data(), payload.size());
    if (ZSTD_isError(got) || got != raw.size())
      return why = "a chunk that does not decompress", false;
    TokenChunk chunk;
    if (!parse_tables(header, raw, ids_bytes, chunk))
      return why = "a chunk whose tables disagree", false;
    if (!keep_ids(header, chunk)) return why = "a chunk with expert ids out of range", false;
    keep_tables(chunk);
    tokens_ += header.tokens;
    return true;
  }

  bool parse_tables(const ChunkHeader& header, std::string_view raw, std::uint64_t ids_bytes,
                    TokenChunk& chunk) {
    ByteReader in(raw);
    const auto domains = in.get<std::uint32_t>();
    if (domains > kMaxDomains) return false;
    for (std::uint32_t i = 0; i < domains && in.ok(); ++i)
      chunk.domains.emplace_back(in.get_bytes(in.get<std::uint16_t>()));
    const auto runs = in.get<std::uint32_t>();
    if (!in.ok() || runs > in.remaining() / 20 || runs_.size() + runs > limits_.max_requests)
      return false;
    chunk.runs.reserve(runs);
    std::uint64_t tokens = 0;
    for (std::uint32_t i = 0; i < runs; ++i) {
      Run run{};
      run.request = in.get<std::uint64_t>();
      const auto domain = in.get<std::uint32_t>();
      const auto length = in.get<std::uint32_t>();
      const auto prompt = in.get<std::uint32_t>();
      if (prompt > length || length > header.tokens) return false;
      if (run.request != kNoRequest && domain >= domains) return false;
      run.domain = static_cast<int>(domain);
      run.first = static_cast<std::int64_t>(tokens);
      run.tokens = static_cast<int>(length);
      run.prompt = static_cast<int>(prompt);
      tokens += length;
      chunk.runs.push_back(run);
    }
    if (tokens != header.tokens) return false;
    const auto ends = in.get<std::uint32_t>();
    if (!in.ok() || ends > in.remaining() / 4) return false;
    chunk.pass_ends.reserve(ends);
    for (std::uint32_t i = 0; i < ends; ++i) {
      const auto end = in.get<std::uint32_t>();
      if (end > header.tokens || (!chunk.pass_ends.empty() && end < chunk.pass_ends.back()))
        return false;
      chunk.pass_ends.push_back(end);
    }
    chunk.ids = in.get_bytes(ids_bytes);
    return in.ok() && in.remaining() == 0;
  }

  bool keep_ids(const ChunkHeader& header, const TokenChunk& chunk) {
    const int k = trace().info.top_k, layers = trace().layers(), experts = trace().info.experts;
    const bool wide = id_bytes(experts) == 2;
    const std::size_t old = trace().ids.size();
    trace().ids.resize(old + static_cast<std::size_t>(header.tokens) * trace().row_ids());
    std::int16_t* out = trace().ids.data() + old;
    const auto* in = reinterpret_cast<const unsigned char*>(chunk.ids.data());
    for (int layer = 0; layer < layers; ++layer)
      for (std::uint32_t token = 0; token < header.tokens; ++token)
        for (int j = 0; j < k; ++j) {
          int id;
          if (wide) {
            id = static_cast<std::int16_t>(in[0] | in[1] << 8);
            in += 2;
          } else {
            id = *in == 255 ? -1 : *in;
            ++in;
          }
          if (id < -1 || id >= experts) {
            trace().ids.resize(old);
            return false;
          }
          out[(static_cast<std::int64_t>(token) * layers + layer) * k + j] =
              static_cast<std::int16_t>(id);
        }
    return true;
  }

  void keep_tables(const TokenChunk& chunk) {
    std::vector<int> global;
    for (const std::string& name : chunk.domains) global.push_back(domain_index(trace(), name));
    for (Run run : chunk.runs) {
      run.first += tokens_;
      run.domain = run.request == kNoRequest ? -1 : global[run.domain];
      runs_.push_back(run);
    }
    for (const std::uint32_t end : chunk.pass_ends) ends_.push_back(tokens_ + end);
  }

  // A pass that lost a part would pass for a smaller pass: its remaining tokens go too.
  void drop_broken_passes() {
    if (ends_.empty()) return;
    std::int64_t dropped_from = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = gaps_.size(); i-- > 0;) {
      const std::int64_t gap = gaps_[i];
      if (gap >= dropped_from) continue;  // its pass is gone already
      const auto above = std::lower_bound(ends_.begin(), ends_.end(), gap + 1);
      const std::int64_t low = above == ends_.begin() ? 0 : above[-1];
      const std::int64_t high = above == ends_.end() ? tokens_ : *above;
      dropped_from = low;
      if (low < high) drop(low, high);
      if (above != ends_.end()) {
        const auto removed = high - low;
        const auto next = ends_.erase(ends_.begin() + (above - ends_.begin()));
        for (auto it = next; it != ends_.end(); ++it) *it -= removed;
      }
    }
    trace().pass_offsets.reserve(ends_.size() + 1);
    trace().pass_offsets.push_back(0);
    for (const std::int64_t end : ends_) trace().pass_offsets.push_back(end);
  }

  void drop(std::int64_t low, std::int64_t high) {
    const std::int64_t row = trace().row_ids();
    trace().ids.erase(trace().ids.begin() + low * row, trace().ids.begin() + high * row);
    health().lost_tokens += high - low;
    tokens_ -= high - low;
    std::vector<Run> kept;
    for (const Run& run : runs_) {
      // What is left before the hole, then after it; both keep the prompt tokens that are theirs.
      const std::int64_t end = run.first + run.tokens;
      const int before = static_cast<int>(std::clamp<std::int64_t>(low - run.first, 0, run.tokens));
      const int after = static_cast<int>(std::clamp<std::int64_t>(end - high, 0, run.tokens));
      if (before > 0)
        kept.push_back({run.request, run.domain, run.first, before, std::min(run.prompt, before)});
      if (after > 0)
        kept.push_back({run.request, run.domain, std::max(run.first, high) - (high - low), after,
                        std::max(0, run.prompt - (run.tokens - after))});
    }
    runs_ = std::move(kept);
  }

  void build_requests() {
    std::unordered_map<std::uint64_t, int> known;
    std::vector<int> request_of(runs_.size(), -1);
    bool together = true;
    auto& requests = trace().requests;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const Run& run = runs_[i];
      if (run.request == kNoRequest || run.tokens == 0) continue;
      const auto [found, is_new] =
          known.try_emplace(run.request, static_cast<int>(requests.size()));
      request_of[i] = found->second;
      if (is_new) {
        requests.push_back({run.domain, run.prompt, run.first, run.tokens});
        continue;
      }
      TraceRequest& request = requests[found->second];
      together = together && request.first + request.tokens == run.first;
      request.tokens += run.tokens;
      request.prompt += run.prompt;
    }
    if (together) return;
    std::int64_t at = 0;
    for (TraceRequest& request : requests) {
      request.first = at;
      at += request.tokens;
      request.tokens = 0;
    }
    trace().order.resize(at);
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (request_of[i] < 0) continue;
      TraceRequest& request = requests[request_of[i]];
      for (int t = 0; t < runs_[i].tokens; ++t)
        trace().order[request.first + request.tokens++] = runs_[i].first + t;
    }
  }

  std::string_view bytes_;
  TraceLimits limits_;
  std::uint64_t file_hash_ = 0;
  std::size_t at_ = 0;
  std::int64_t tokens_ = 0;           // kept so far
  std::uint64_t expected_token_ = 0;  // in the file's own count
  std::vector<Run> runs_;
  std::vector<std::int64_t> ends_;  // of passes, in kept tokens
  std::vector<std::int64_t> gaps_;  // where something was lost, in kept tokens
  ReadTrace out_;
};

}  // namespace

std::string TraceHealth::text() const {
  if (whole()) return fmt::format("whole: {} chunks, {} bytes", chunks, file_bytes);
  std::string text =
      fmt::format("{}: {} of {} bytes lost, {} damaged chunks, {} chunks read",
                  closed ? "damaged" : "cut short", lost_bytes, file_bytes, damaged_chunks, chunks);
  if (lost_tokens > 0) text += fmt::format(", at least {} tokens lost", lost_tokens);
  if (!reason.empty()) text += fmt::format(" ({})", reason);
  return text;
}

ReadTrace read_trace_bytes(std::string_view bytes, const TraceLimits& limits) {
  if (bytes.size() > limits.max_file_bytes)
    throw Error("trace", fmt::format("{} bytes", bytes.size()),
                fmt::format("at most {}", limits.max_file_bytes), "cut the trace");
  return Reader(bytes, limits).read();
}

ReadTrace read_trace(const std::filesystem::path& path, const TraceLimits& limits) {
  return read_trace_bytes(read_whole_file(path, "trace", limits.max_file_bytes), limits);
}

}  // namespace ramp
