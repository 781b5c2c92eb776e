// SPDX-License-Identifier: Apache-2.0
#include "problem/trace_file.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.hpp"
#include "problem/trace_format.hpp"
#include "tests/problem/small_trace.hpp"

namespace ramp {
namespace {

void expect_same(const RoutingTrace& a, const RoutingTrace& b) {
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.pass_offsets, b.pass_offsets);
  EXPECT_EQ(a.info.layers, b.info.layers);
  EXPECT_EQ(a.info.model, b.info.model);
  EXPECT_EQ(a.info.source, b.info.source);
  EXPECT_EQ(a.info.seed, b.info.seed);
  EXPECT_EQ(a.info.phase, b.info.phase);
  EXPECT_EQ(a.info.kind, b.info.kind);
  ASSERT_EQ(a.requests.size(), b.requests.size());
  for (std::size_t r = 0; r < a.requests.size(); ++r) {
    const TraceRequest &x = a.requests[r], &y = b.requests[r];
    EXPECT_EQ(a.domains[x.domain], b.domains[y.domain]);
    EXPECT_EQ(x.prompt, y.prompt);
    ASSERT_EQ(x.tokens, y.tokens);
    for (int i = 0; i < x.tokens; ++i) ASSERT_EQ(a.token_of(x, i), b.token_of(y, i));
  }
}

std::string file_of(const RoutingTrace& trace) {
  TestFolder folder;
  write_trace(trace, folder / "t.rtrace", 1);
  return bytes_of(folder / "t.rtrace");
}

TEST(TraceFile, GivesBackWhatWasWritten) {
  for (const RoutingTrace& trace :
       {request_trace({5, 9, 1, 30}), request_trace({3000, 6000, 2}), pass_trace(3, 4, 6),
        request_trace({7}, 2, 300, 4, 3), request_trace({12, 4}, 3, 255, 2, 1),
        request_trace({12, 4}, 3, 256, 2, 1)}) {
    const std::string bytes = file_of(trace);
    const ReadTrace read = read_trace_bytes(bytes);
    EXPECT_TRUE(read.health.whole()) << read.health.text();
    expect_same(trace, read.trace);
    EXPECT_NO_THROW(check_trace(read.trace));
  }
}

TEST(TraceFile, KeepsTheLabelOfGeneratedRouting) {
  RoutingTrace trace = request_trace({4});
  trace.info.kind = TraceKind::kGenerated;
  trace.info.calibration = "olmoe (g 0.69)";
  trace.info.seed = 0xffffffffffffffffull;
  const ReadTrace read = read_trace_bytes(file_of(trace));
  EXPECT_EQ(routing_label(read.trace.info), "generated: olmoe (g 0.69), seed 18446744073709551615");
  EXPECT_EQ(routing_label(request_trace({4}).info), "recorded: a test");
}

TEST(TraceFile, KeepsPaddingAtEveryWidth) {
  for (const int experts : {16, 254, 255, 256, 20000}) {
    RoutingTrace trace = request_trace({2}, 1, 16, 1, 1);
    trace.info.experts = experts;
    trace.ids = {-1, static_cast<std::int16_t>(experts - 1)};
    EXPECT_EQ(read_trace_bytes(file_of(trace)).trace.ids, trace.ids) << experts;
  }
}

TEST(TraceFile, HoldsTokensOfNoRequestBetweenRequests) {
  RoutingTrace trace = request_trace({4, 4});
  trace.requests[1].first = 4;
  trace.requests[1].tokens = 2;
  trace.requests[1].prompt = 1;
  const ReadTrace read = read_trace_bytes(file_of(trace));
  EXPECT_EQ(read.trace.tokens(), 8);
  expect_same(trace, read.trace);
}

// A recorder that dies leaves the .part file: every whole chunk is in it.
TEST(TraceFile, ReadsWhatACrashLeft) {
  TestFolder folder;
  const RoutingTrace trace = request_trace({5000, 5000});
  const auto row = static_cast<std::size_t>(trace.row_ids());
  {
    TraceWriter writer(folder / "t.rtrace", trace.info, 1);
    writer.append({0, "math", 5000, 2500}, {trace.ids.data(), 5000 * row});
    writer.append({1, "code", 5000, 2500}, {trace.ids.data() + 5000 * row, 5000 * row});
    // no close
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "t.rtrace"));
  const ReadTrace read = read_trace(folder / "t.rtrace.part");
  EXPECT_FALSE(read.health.closed);
  EXPECT_EQ(read.health.lost_bytes, 0u);
  EXPECT_EQ(read.trace.tokens(), 2 * kTraceChunkTokens);
  EXPECT_TRUE(std::equal(read.trace.ids.begin(), read.trace.ids.end(), trace.ids.begin()));
  EXPECT_EQ(read.trace.requests.size(), 2u);
  EXPECT_EQ(read.trace.requests[0].tokens, 5000);
  EXPECT_NE(read.health.text().find("cut short"), std::string::npos);
}

TEST(TraceFile, FlushMakesAChunkOfWhatIsThere) {
  TestFolder folder;
  const RoutingTrace trace = request_trace({10});
  TraceWriter writer(folder / "t.rtrace", trace.info, 1);
  writer.append({0, "math", 10, 0}, trace.ids);
  writer.flush();
  EXPECT_EQ(read_trace(folder / "t.rtrace.part").trace.tokens(), 10);
  writer.close();
  EXPECT_TRUE(read_trace(folder / "t.rtrace").health.whole());
  EXPECT_FALSE(std::filesystem::exists(folder / "t.rtrace.part"));
}

TEST(TraceFile, CutAnywhereGivesAPrefixOfTheTokens) {
  const RoutingTrace trace = request_trace({40, 4090, 60}, 1, 16, 1, 1);
  const std::string bytes = file_of(trace);
  std::int64_t before = 0;
  for (std::size_t cut = 0; cut < bytes.size();
       cut += cut < 300 || cut + 300 > bytes.size() ? 1 : 13) {
    ReadTrace read;
    try {
      read = read_trace_bytes(std::string_view(bytes).substr(0, cut));
    } catch (const Error&) {
      EXPECT_LT(cut, 400u);  // only without a whole description
      continue;
    }
    ASSERT_FALSE(read.health.whole()) << cut;
    ASSERT_GE(read.trace.tokens(), before);
    before = read.trace.tokens();
    ASSERT_TRUE(std::equal(read.trace.ids.begin(), read.trace.ids.end(), trace.ids.begin())) << cut;
    ASSERT_NO_THROW(check_trace(read.trace)) << cut;
  }
  EXPECT_EQ(before, trace.tokens());
}

TEST(TraceFile, ADamagedChunkCostsItsOwnTokensOnly) {
  const RoutingTrace trace = request_trace({4 * kTraceChunkTokens}, 1, 16, 1, 1);
  std::string bytes = file_of(trace);
  // Into the second chunk's payload: three quarters of a chunk's bytes past the first one.
  bytes[bytes.size() * 3 / 8] ^= 0x10;
  const ReadTrace read = read_trace_bytes(bytes);
  EXPECT_EQ(read.health.damaged_chunks, 1);
  EXPECT_EQ(read.health.lost_tokens, kTraceChunkTokens);
  EXPECT_TRUE(read.health.closed);
  ASSERT_EQ(read.trace.tokens(), 3 * kTraceChunkTokens);
  EXPECT_TRUE(std::equal(read.trace.ids.begin(), read.trace.ids.begin() + kTraceChunkTokens,
                         trace.ids.begin()));
  EXPECT_TRUE(std::equal(read.trace.ids.begin() + kTraceChunkTokens, read.trace.ids.end(),
                         trace.ids.begin() + 2 * kTraceChunkTokens));
  EXPECT_EQ(read.trace.requests[0].tokens, 3 * kTraceChunkTokens);
}

TEST(TraceFile, FindsTheNextChunkBehindADamagedHeader) {
  const RoutingTrace trace = request_trace({3 * kTraceChunkTokens}, 1, 16, 1, 1);
  std::string bytes = file_of(trace);
  const std::size_t second = bytes.find("RTCK", bytes.find("RTCK") + 1);
  bytes[second + 20] ^= 1;
  const ReadTrace read = read_trace_bytes(bytes);
  EXPECT_EQ(read.health.damaged_chunks, 1);
  EXPECT_EQ(read.health.lost_tokens, kTraceChunkTokens);
  EXPECT_EQ(read.trace.tokens(), 2 * kTraceChunkTokens);
  EXPECT_NE(read.health.text().find("header"), std::string::npos);
}

// A pass that lost a part would look like a smaller pass.
TEST(TraceFile, DropsPassesThatADamagedChunkTouched) {
  const RoutingTrace trace =
      pass_trace(1, 100, 200);  // 20,100 tokens, five chunks, passes over their borders
  std::string bytes = file_of(trace);
  ASSERT_TRUE(read_trace_bytes(bytes).health.whole());
  const std::size_t first = bytes.find("RTCK");
  const std::size_t second = bytes.find("RTCK", first + 1);
  bytes[second + 100] ^= 1;
  const ReadTrace read = read_trace_bytes(bytes);
  EXPECT_EQ(read.health.damaged_chunks, 1);
  EXPECT_NO_THROW(check_trace(read.trace));
  ASSERT_GT(read.trace.passes(), 100);
  // 100 tokens a pass but the first, which holds its requests' prompts too.
  for (int p = 0; p < read.trace.passes(); ++p)
    ASSERT_EQ(read.trace.pass_offsets[p + 1] - read.trace.pass_offsets[p], p == 0 ? 200 : 100) << p;
  EXPECT_EQ(read.trace.pass_offsets.back(), read.trace.tokens());
  EXPECT_EQ(read.health.lost_tokens + read.trace.tokens(), trace.tokens());
}

TEST(TraceFile, EveryFlippedBitIsNoticedOrHarmless) {
  const RoutingTrace trace = request_trace({30, 20}, 1, 16, 2, 2);
  const std::string whole = file_of(trace);
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      try {
        const ReadTrace read = read_trace_bytes(bytes);
        ASSERT_FALSE(read.health.whole()) << "byte " << at << " bit " << bit;
        ASSERT_TRUE(read.trace.tokens() == 0 || read.trace.ids == trace.ids);
        ASSERT_NO_THROW(check_trace(read.trace));
      } catch (const Error&) {
      }
    }
}

TEST(TraceFile, RefusesANewerMajorVersionAndReadsANewerMinor) {
  std::string bytes = file_of(request_trace({3}));
  auto with_version = [&](char major, char minor) {
    std::string other = bytes;
    other[8] = major;
    other[10] = minor;
    ByteWriter hash;
    hash.put(trace_format::hash_of(std::string_view(other).substr(0, 24)));
    return other.substr(0, 24) + std::string(hash.view()) + other.substr(32);
  };
  const std::string error = error_of([&] { read_trace_bytes(with_version(2, 0)); });
  EXPECT_NE(error.find("version"), std::string::npos) << error;
  EXPECT_NE(error.find("got 2"), std::string::npos) << error;
  EXPECT_EQ(read_trace_bytes(with_version(1, 7)).trace.tokens(), 3);
}

TEST(TraceFile, RefusesWhatIsNoTrace) {
  for (const std::string& bytes : {std::string(), std::string("PK\x03\x04"), std::string(100, '\0'),
                                   std::string("\x89RTRACE\n"), std::string("\x89RTRACE\r\n")})
    EXPECT_THROW(read_trace_bytes(bytes), Error);
  EXPECT_THROW(read_trace("/nowhere/at/all.rtrace"), Error);
  EXPECT_THROW(read_trace("/"), Error);
}

// Claims are held against the file before anything is allocated.
TEST(TraceFile, BelievesNoClaimThatTheFileDoesNotHold) {
  const RoutingTrace trace = request_trace({4000, 96}, 1, 16, 1, 1);
  std::string bytes = file_of(trace);
  const std::size_t at = bytes.find("RTCK");
  ByteReader description(std::string_view(bytes).substr(12));
  const auto info_bytes = description.get<std::uint32_t>();
  const std::uint64_t file_hash =
      trace_format::hash_of(std::string_view(bytes).substr(32, info_bytes));
  trace_format::ChunkHeader header;
  ASSERT_TRUE(trace_format::unpack(std::string_view(bytes).substr(at), file_hash, header));
  auto claim = [&](auto change) {
    trace_format::ChunkHeader other = header;
    change(other);
    std::string changed = bytes;
    changed.replace(at, trace_format::kChunkHeaderBytes, trace_format::pack(other));
    return read_trace_bytes(changed);
  };
  for (const ReadTrace& read :
       {claim([](auto& h) { h.raw_bytes = 1ull << 60; }),
        claim([](auto& h) { h.raw_bytes = 1u << 27; }),
        claim([](auto& h) { h.tokens = 0xffffffff; }),
        claim([](auto& h) { h.payload_bytes = ~0ull; }), claim([](auto& h) { h.tokens = 1; })}) {
    EXPECT_EQ(read.trace.tokens(), 0);
    EXPECT_FALSE(read.health.whole());
    EXPECT_NE(read.health.reason, "");
  }
  EXPECT_GT(claim([](auto& h) { h.first_token = 1ull << 35; }).health.lost_tokens, 1);
  TraceLimits limits;
  limits.max_ids = 100;
  EXPECT_THROW(read_trace_bytes(bytes, limits), Error);
  limits = {};
  limits.max_file_bytes = 10;
  EXPECT_THROW(read_trace_bytes(bytes, limits), Error);
}

TEST(TraceFile, DomainsAreKindsOfTextAndNotNamesOfRequests) {
  RoutingTrace trace = request_trace({1});
  trace.domains.clear();
  for (int i = 0; i < kMaxDomains; ++i) domain_index(trace, std::to_string(i));
  EXPECT_EQ(domain_index(trace, "7"), 7);
  EXPECT_THROW(domain_index(trace, "one more"), Error);
}

TEST(TraceFile, WriterRefusesWhatItsReaderWould) {
  TestFolder folder;
  RoutingTrace trace = request_trace({4});
  trace.ids[3] = 16;
  EXPECT_THROW(write_trace(trace, folder / "t.rtrace"), Error);
  EXPECT_FALSE(std::filesystem::exists(folder / "t.rtrace"));
  trace = request_trace({4});
  trace.requests[0].tokens = 5;
  EXPECT_THROW(write_trace(trace, folder / "t.rtrace"), Error);
  trace = request_trace({4});
  trace.info.top_k = 17;
  EXPECT_THROW(write_trace(trace, folder / "t.rtrace"), Error);
  EXPECT_THROW(write_trace(request_trace({4}), folder / "no such folder" / "t.rtrace"), Error);
}

}  // namespace
}  // namespace ramp
