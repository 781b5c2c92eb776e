// SPDX-License-Identifier: Apache-2.0
// Writing `.rtrace`: chunks are appended to a .part file, the index and the final name come at the
// end.
#include <fcntl.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "problem/trace_file.hpp"
#include "problem/trace_format.hpp"

namespace ramp {

using namespace trace_format;

struct TraceWriter::Run {
  std::uint64_t request;
  int domain;  // of the writer's table; -1 without a request
  int tokens;
  int prompt;
};

namespace {

std::string compress(std::string_view raw, int level) {
  std::string out(ZSTD_compressBound(raw.size()), '\0');
  const std::size_t bytes = ZSTD_compress(out.data(), out.size(), raw.data(), raw.size(), level);
  if (ZSTD_isError(bytes)) throw Error(fmt::format("zstd: {}", ZSTD_getErrorName(bytes)));
  out.resize(bytes);
  return out;
}

void sync_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (fd < 0) return;  // the rename stands; only its survival of a power cut is not asked for
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

TraceWriter::TraceWriter(const std::filesystem::path& path, const TraceInfo& info, int level)
    : path_(path), part_(path.string() + ".part"), info_(info), level_(level) {
  check_trace_info(info);
  const std::string text = pack_info(info);
  if (text.size() > kMaxInfoBytes)
    throw Error("trace description", fmt::format("{} bytes", text.size()),
                fmt::format("at most {}", kMaxInfoBytes), "shorten source or made");
  file_ = std::fopen(part_.c_str(), "wb");
  if (!file_)
    throw Error("output", part_.string(), "a file that can be written",
                fmt::format("{}: check folder and rights", std::strerror(errno)));
  ByteWriter header;
  header.put_bytes(kMagic);
  header.put(kTraceVersionMajor);
  header.put(kTraceVersionMinor);
  header.put(static_cast<std::uint32_t>(text.size()));
  file_hash_ = hash_of(text);
  header.put(file_hash_);
  header.put(hash_of(header.view()));
  put(header.view());
  put(text);
}

TraceWriter::~TraceWriter() {
  if (file_)
    std::fclose(
        file_);  // not closed by its owner: the .part file stays, readable up to its last chunk
}

void TraceWriter::put(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size())
    throw Error("output", part_.string(), "a disk with room",
                fmt::format("{}; {} tokens are safe in that file", std::strerror(errno), written_));
  offset_ += bytes.size();
}

void TraceWriter::append(const TraceSegment& segment, std::span<const std::int16_t> ids) {
  if (segment.request == kNoRequest || segment.prompt < 0 || segment.prompt > segment.tokens ||
      segment.domain.size() > 65535)
    throw Error("segment", fmt::format("request {} prompt {}", segment.request, segment.prompt),
                "a request number below 2^64-1, 0 <= prompt <= tokens", "check the caller");
  const auto [found, is_new] =
      domains_.try_emplace(segment.domain, static_cast<int>(domains_.size()));
  if (is_new && domain_names_.size() >= static_cast<std::size_t>(kMaxDomains))
    throw Error("domains", fmt::format("more than {}", kMaxDomains),
                "kinds of text, not names of requests", "group the requests into fewer domains");
  if (is_new) domain_names_.push_back(segment.domain);
  append_run(segment.request, found->second, segment.tokens, segment.prompt, ids);
}

void TraceWriter::append_anonymous(std::span<const std::int16_t> ids) {
  const std::size_t row = info_.layers.size() * info_.top_k;
  append_run(kNoRequest, -1, static_cast<int>(ids.size() / row), 0, ids);
}

void TraceWriter::append_run(std::uint64_t request, int domain, int tokens, int prompt,
                             std::span<const std::int16_t> ids) {
  const std::size_t row = info_.layers.size() * info_.top_k;
  if (tokens < 0 || ids.size() != row * tokens)
    throw Error("ids", fmt::format("{} ids for {} tokens", ids.size(), tokens),
                fmt::format("tokens x layers x k = {} a token", row), "check the caller");
  for (const std::int16_t id : ids)
    if (id < -1 || id >= info_.experts)
      throw Error("expert id", fmt::format("{}", id), fmt::format("-1 .. {}", info_.experts - 1),
                  "check the caller");
  for (int at = 0; at < tokens;) {
    const int room = kTraceChunkTokens - static_cast<int>(ids_.size() / row);
    const int part = std::min(tokens - at, room);
    const int part_prompt = std::clamp(prompt - at, 0, part);
    const auto piece = ids.subspan(at * row, part * row);
    ids_.insert(ids_.end(), piece.begin(), piece.end());
    Run* last = runs_.empty() ? nullptr : &runs_.back();
    // Joins the run before it unless prompt tokens would follow decoded ones.
    if (last && last->request == request && last->domain == domain &&
        (part_prompt == 0 || last->prompt == last->tokens)) {
      last->tokens += part;
      last->prompt += part_prompt;
    } else {
      runs_.push_back({request, domain, part, part_prompt});
    }
    at += part;
    tokens_ += part;
    if (static_cast<int>(ids_.size() / row) >= kTraceChunkTokens) write_chunk();
  }
}

void TraceWriter::end_pass() {
  pass_ends_.push_back(static_cast<std::uint32_t>(tokens_ - written_));
}

void TraceWriter::write_chunk() {
  const std::size_t row = info_.layers.size() * info_.top_k;
  const int tokens = static_cast<int>(ids_.size() / row);
  if (tokens == 0 && pass_ends_.empty()) return;
  ByteWriter raw;
  // A chunk names the domains it uses itself: losing another chunk can't change what it says.
  std::unordered_map<int, int> local;
  std::vector<int> used;
  for (const Run& run : runs_)
    if (run.domain >= 0 && local.try_emplace(run.domain, static_cast<int>(used.size())).second)
      used.push_back(run.domain);
  raw.put(static_cast<std::uint32_t>(used.size()));
  for (const int domain : used) {
    raw.put(static_cast<std::uint16_t>(domain_names_[domain].size()));
    raw.put_bytes(domain_names_[domain]);
  }
  raw.put(static_cast<std::uint32_t>(runs_.size()));
  for (const Run& run : runs_) {
    raw.put(run.request);
    raw.put(static_cast<std::uint32_t>(run.domain < 0 ? 0 : local[run.domain]));
    raw.put(static_cast<std::uint32_t>(run.tokens));
    raw.put(static_cast<std::uint32_t>(run.prompt));
  }
  raw.put(static_cast<std::uint32_t>(pass_ends_.size()));
  for (const std::uint32_t end : pass_ends_) raw.put(end);
  // Layer by layer: neighbouring tokens of one request choose alike, and that is what compresses.
  const bool wide = id_bytes(info_.experts) == 2;
  const int k = info_.top_k;
  for (std::size_t layer = 0; layer < info_.layers.size(); ++layer)
    for (int token = 0; token < tokens; ++token)
      for (int j = 0; j < k; ++j) {
        const std::int16_t id = ids_[token * row + layer * k + j];
        if (wide)
          raw.put(static_cast<std::uint16_t>(id));
        else
          raw.put(static_cast<std::uint8_t>(id));
      }
  const std::string payload = compress(raw.view(), level_);
  ChunkHeader header;
  header.kind = kTokens;
  header.payload_bytes = payload.size();
  header.raw_bytes = raw.size();
  header.first_token = static_cast<std::uint64_t>(written_);
  header.tokens = static_cast<std::uint32_t>(tokens);
  header.sequence = static_cast<std::uint32_t>(index_.size());
  header.payload_hash = hash_of(payload);
  header.file_hash = file_hash_;
  index_.push_back({offset_, written_, header.tokens});
  put(pack(header));
  put(payload);
  written_ += tokens;
  runs_.clear();
  ids_.clear();
  pass_ends_.clear();
}

void TraceWriter::flush() {
  write_chunk();
  if (std::fflush(file_) != 0 || ::fdatasync(::fileno(file_)) != 0)
    throw Error("output", part_.string(), "a disk that keeps data", std::strerror(errno));
}

void TraceWriter::close() {
  if (!file_) return;
  write_chunk();
  ByteWriter raw;
  raw.put(static_cast<std::uint64_t>(written_));
  raw.put(static_cast<std::uint32_t>(index_.size()));
  for (const IndexEntry& entry : index_) {
    raw.put(entry.offset);
    raw.put(static_cast<std::uint64_t>(entry.first));
    raw.put(entry.tokens);
  }
  const std::string payload = compress(raw.view(), level_);
  ChunkHeader header;
  header.kind = kIndex;
  header.payload_bytes = payload.size();
  header.raw_bytes = raw.size();
  header.first_token = static_cast<std::uint64_t>(written_);
  header.sequence = static_cast<std::uint32_t>(index_.size());
  header.payload_hash = hash_of(payload);
  header.file_hash = file_hash_;
  const std::uint64_t index_at = offset_;
  put(pack(header));
  put(payload);
  ByteWriter trailer;
  trailer.put(index_at);
  trailer.put_bytes(kEnd);
  put(trailer.view());
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0)
    throw Error("output", part_.string(), "a disk that keeps data", std::strerror(errno));
  std::FILE* file = file_;
  file_ = nullptr;
  if (std::fclose(file) != 0)
    throw Error("output", part_.string(), "a disk that keeps data", std::strerror(errno));
  std::error_code failed;
  std::filesystem::rename(part_, path_, failed);
  if (failed)
    throw Error("output", path_.string(), "a name that can be given",
                fmt::format("{}; the trace is whole in {}", failed.message(), part_.string()));
  sync_folder_of(path_);
}

void write_trace(const RoutingTrace& trace, const std::filesystem::path& path, int level) {
  check_trace(trace);
  const std::int64_t tokens = trace.tokens();
  std::vector<std::int32_t> request_of(tokens, -1);
  std::vector<bool> is_prompt(tokens, false);
  for (std::size_t r = 0; r < trace.requests.size(); ++r)
    for (int i = 0; i < trace.requests[r].tokens; ++i) {
      const std::int64_t token = trace.token_of(trace.requests[r], i);
      request_of[token] = static_cast<std::int32_t>(r);
      is_prompt[token] = i < trace.requests[r].prompt;
    }
  TraceWriter writer(path, trace.info, level);
  const std::int64_t row = trace.row_ids();
  std::size_t pass = 1;
  std::int64_t at = 0;
  const auto& ends = trace.pass_offsets;
  if (!ends.empty() && ends[0] > 0)
    throw Error("pass_offsets[0]", fmt::format("{}", ends[0]), "0",
                "tokens before the first pass: cut them off");
  while (at < tokens || pass < ends.size()) {
    if (pass < ends.size() && ends[pass] == at) {
      writer.end_pass();
      ++pass;
      continue;
    }
    std::int64_t end = at + 1;
    const std::int64_t stop = pass < ends.size() ? ends[pass] : tokens;
    while (end < stop && request_of[end] == request_of[at] &&
           (is_prompt[end - 1] || !is_prompt[end]))
      ++end;
    const std::span<const std::int16_t> ids(trace.ids.data() + at * row, (end - at) * row);
    if (request_of[at] < 0) {
      writer.append_anonymous(ids);
    } else {
      TraceSegment segment;
      segment.request = static_cast<std::uint64_t>(request_of[at]);
      segment.domain = trace.domains[trace.requests[request_of[at]].domain];
      segment.tokens = static_cast<int>(end - at);
      for (std::int64_t t = at; t < end; ++t) segment.prompt += is_prompt[t];
      writer.append(segment, ids);
    }
    at = end;
  }
  writer.close();
}

}  // namespace ramp
