// SPDX-License-Identifier: Apache-2.0
// Small inputs for the tests of this room: a trace, a folder, a NumPy array, a zip.
#pragma once

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "problem/bytes.hpp"
#include "problem/random.hpp"
#include "problem/trace.hpp"

namespace ramp {

class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ramp-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Random distinct ids, ascending in a row; a few rows hold padding.
inline std::vector<std::int16_t> random_ids(std::int64_t rows, int experts, int k, Random& random,
                                            bool padding = false) {
  std::vector<std::int16_t> ids;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<int> all(experts);
    for (int e = 0; e < experts; ++e) all[e] = e;
    random.shuffle(all);
    std::sort(all.begin(), all.begin() + k);
    const bool is_padding = padding && random.below(10) == 0;
    for (int j = 0; j < k; ++j) ids.push_back(static_cast<std::int16_t>(is_padding ? -1 : all[j]));
  }
  return ids;
}

// requests.size() requests of that many tokens, alternating over the domains, half of each a
// prompt.
inline RoutingTrace request_trace(const std::vector<int>& requests, std::uint64_t seed = 1,
                                  int experts = 16, int k = 3, int layers = 2,
                                  std::vector<std::string> domains = {"math", "code"}) {
  RoutingTrace trace;
  trace.info.model = "test";
  trace.info.experts = experts;
  trace.info.top_k = k;
  for (int i = 0; i < layers; ++i) trace.info.layers.push_back(3 + i);
  trace.info.phase = TracePhase::kMixed;
  trace.info.source = "a test";
  trace.info.licence = "Apache-2.0";
  trace.domains = std::move(domains);
  Random random(seed);
  std::int64_t first = 0;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    trace.requests.push_back(
        {static_cast<int>(r % trace.domains.size()), requests[r] / 2, first, requests[r]});
    first += requests[r];
  }
  trace.ids = random_ids(first * layers, experts, k, random, true);
  return trace;
}

// Passes in which the active requests take turns, as a recorder writes them: a prompt's tokens,
// then one a pass.
inline RoutingTrace pass_trace(int sessions, int concurrency, int passes, std::uint64_t seed = 1) {
  RoutingTrace trace = request_trace({}, seed, 16, 3, 2);
  std::vector<std::vector<std::int64_t>> members;
  trace.pass_offsets = {0};
  std::int64_t token = 0;
  for (int s = 0; s < sessions; ++s) {
    const std::size_t first_request = members.size();
    for (int p = 0; p < passes; ++p) {
      for (int c = 0; c < concurrency; ++c) {
        if (p == 0) {
          members.emplace_back();
          trace.requests.push_back({s % 2, 2, 0, 0});
          members.back().push_back(token++);
        }
        members[first_request + c].push_back(token++);
      }
      trace.pass_offsets.push_back(token);
    }
  }
  for (std::size_t r = 0; r < members.size(); ++r) {
    trace.requests[r].first = static_cast<std::int64_t>(trace.order.size());
    trace.requests[r].tokens = static_cast<int>(members[r].size());
    trace.order.insert(trace.order.end(), members[r].begin(), members[r].end());
  }
  Random random(seed);
  trace.ids = random_ids(token * 2, 16, 3, random);
  return trace;
}

// A .npy of version 1.0 around raw bytes.
inline std::string npy_of(const std::string& descr, const std::vector<std::int64_t>& shape,
                          const std::string& data, bool fortran = false) {
  std::string tuple = "(";
  for (const std::int64_t extent : shape) tuple += std::to_string(extent) + ", ";
  std::string header = "{'descr': '" + descr +
                       "', 'fortran_order': " + (fortran ? "True" : "False") +
                       ", 'shape': " + tuple + "), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  ByteWriter out;
  out.put_bytes(std::string_view("\x93NUMPY\x01\x00", 8));
  out.put(static_cast<std::uint16_t>(header.size()));
  out.put_bytes(header);
  out.put_bytes(data);
  return out.take();
}

inline std::string gzip_of(const std::string& bytes, int window_bits = 15 + 16) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A zip of named entries, stored or deflated.
inline std::string zip_of(const std::vector<std::pair<std::string, std::string>>& entries,
                          bool deflated) {
  ByteWriter out, directory;
  for (const auto& entry : entries) {
    const std::string &name = entry.first, &raw = entry.second;
    const std::string packed = deflated ? gzip_of(raw, -15) : raw;
    const auto crc = static_cast<std::uint32_t>(
        crc32_z(0, reinterpret_cast<const Bytef*>(raw.data()), raw.size()));
    const auto at = static_cast<std::uint32_t>(out.size());
    auto common = [&](ByteWriter& w) {
      w.put<std::uint16_t>(20);
      w.put<std::uint16_t>(0);
      w.put<std::uint16_t>(deflated ? 8 : 0);
      w.put<std::uint32_t>(0);
      w.put(crc);
      w.put(static_cast<std::uint32_t>(packed.size()));
      w.put(static_cast<std::uint32_t>(raw.size()));
      w.put(static_cast<std::uint16_t>(name.size()));
      w.put<std::uint16_t>(0);
    };
    out.put<std::uint32_t>(0x04034b50);
    common(out);
    out.put_bytes(name);
    out.put_bytes(packed);
    directory.put<std::uint32_t>(0x02014b50);
    directory.put<std::uint16_t>(20);
    common(directory);
    directory.put<std::uint16_t>(0);  // comment
    directory.put<std::uint16_t>(0);  // disk
    directory.put<std::uint16_t>(0);
    directory.put<std::uint32_t>(0);
    directory.put(at);
    directory.put_bytes(name);
  }
  const auto start = static_cast<std::uint32_t>(out.size());
  const auto bytes = static_cast<std::uint32_t>(directory.size());
  out.put_bytes(directory.view());
  out.put<std::uint32_t>(0x06054b50);
  out.put<std::uint32_t>(0);
  out.put(static_cast<std::uint16_t>(entries.size()));
  out.put(static_cast<std::uint16_t>(entries.size()));
  out.put(bytes);
  out.put(start);
  out.put<std::uint16_t>(0);
  return out.take();
}

// The text of the Error that `act` throws; empty if it throws none.
template <class Act>
std::string error_of(Act&& act) {
  try {
    act();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace ramp
