// SPDX-License-Identifier: Apache-2.0
#include "problem/replay.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "problem/split.hpp"
#include "tests/problem/small_trace.hpp"

namespace ramp {
namespace {

std::vector<int> all_requests(const RoutingTrace& trace) {
  std::vector<int> all(trace.requests.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

RoutingTrace decode_trace(const std::vector<int>& requests) {
  RoutingTrace trace = request_trace(requests);
  for (TraceRequest& request : trace.requests) request.prompt = 0;
  return trace;
}

TEST(Replay, ClosedLoopDecodesOneTokenOfEachActiveRequestInOrder) {
  const RoutingTrace trace = decode_trace({10, 20, 30, 40, 50, 60, 70, 80});
  ReplayOptions options;
  options.concurrency = 3;
  Replay replay(trace, all_requests(trace), options);
  const std::vector<std::int32_t> request_of = request_of_tokens(trace);
  std::map<int, std::int64_t> last;
  for (int p = 0; p < 300; ++p) {
    const ForwardPass pass = replay.next();
    ASSERT_EQ(pass.tokens.size(), 3u);
    EXPECT_EQ(pass.prefill_tokens, 0);
    for (const std::int64_t token : pass.tokens) {
      const int r = request_of[token];
      if (last.contains(r) && token != trace.requests[r].first) {
        ASSERT_EQ(token, last[r] + 1) << "request " << r;
      }
      last[r] = token;
    }
  }
  EXPECT_EQ(last.size(), 8u);
}

TEST(Replay, PrefillsPromptsInChunksWithinTheBudget) {
  RoutingTrace trace = request_trace({300, 300, 300, 300});
  for (TraceRequest& request : trace.requests) request.prompt = 250;
  ReplayOptions options;
  options.concurrency = 4;
  options.token_budget = 100;
  Replay replay(trace, all_requests(trace), options);
  const std::vector<std::int32_t> request_of = request_of_tokens(trace);
  int prefill = 0, decode = 0;
  for (int p = 0; p < 400; ++p) {
    const ForwardPass pass = replay.next();
    ASSERT_LE(pass.tokens.size(), 100u);
    const int decoding = static_cast<int>(pass.tokens.size()) - pass.prefill_tokens;
    ASSERT_LE(decoding, 4);
    // What is called prefill lies in prompts, what is not does not.
    for (std::size_t i = 0; i < pass.tokens.size(); ++i) {
      const TraceRequest& request = trace.requests[request_of[pass.tokens[i]]];
      ASSERT_EQ(pass.tokens[i] - request.first < request.prompt, static_cast<int>(i) >= decoding);
    }
    prefill += pass.prefill_tokens;
    decode += decoding;
  }
  // Five prompt tokens for each decoded one, as in the requests.
  EXPECT_NEAR(static_cast<double>(prefill) / decode, 5.0, 0.6);
}

TEST(Replay, StreamsATraceOfOnePhase) {
  RoutingTrace trace = request_trace({50, 60});
  for (TraceRequest& request : trace.requests) request.prompt = request.tokens;
  ReplayOptions options;
  options.concurrency = 2;
  Replay stream(trace, all_requests(trace), options);
  EXPECT_EQ(stream.next().tokens.size(), 2u);
  options.prompts = Prompts::kPrefill;
  Replay prefill(trace, all_requests(trace), options);
  EXPECT_GE(prefill.next().prefill_tokens, 50);
}

TEST(Replay, OpenLoopCarriesTheRateTimesTheLengthOfARequest) {
  const RoutingTrace trace = decode_trace(std::vector<int>(40, 100));
  ReplayOptions options;
  options.rate = 10;
  options.pass_ms = 20;
  Replay replay(trace, all_requests(trace), options);
  replay.skip(500);
  double tokens = 0;
  int smallest = 1 << 30, largest = 0;
  for (int p = 0; p < 20000; ++p) {
    const int n = static_cast<int>(replay.next().tokens.size());
    tokens += n;
    smallest = std::min(smallest, n);
    largest = std::max(largest, n);
  }
  // Little's law: 10 a second, each active for 100 passes of 20 ms.
  EXPECT_NEAR(tokens / 20000, 20.0, 2.5);
  EXPECT_LT(smallest, 12);
  EXPECT_GT(largest, 28);
}

// Arrivals bring their own lengths: prompts come from prompts, answers from answers, of one domain.
TEST(Replay, FollowsArrivalsWithTheirLengths) {
  RoutingTrace trace = request_trace(std::vector<int>(20, 40));  // 20 prompt, 20 answer
  ArrivalTrace arrivals;
  arrivals.requests = {{0, 100, 51}, {10, 30, 1}};
  ReplayOptions options;
  options.arrivals = &arrivals;
  options.pass_ms = 1;
  options.token_budget = 64;
  Replay replay(trace, all_requests(trace), options);
  const std::vector<std::int32_t> request_of = request_of_tokens(trace);
  std::vector<int> prefill, decode;
  std::set<int> domains;
  ForwardPass pass;
  for (pass = replay.next(); pass.start_s < 9; pass = replay.next()) {
    const int decoding = static_cast<int>(pass.tokens.size()) - pass.prefill_tokens;
    if (pass.prefill_tokens > 0) prefill.push_back(pass.prefill_tokens);
    if (decoding > 0) decode.push_back(decoding);
    for (std::size_t i = 0; i < pass.tokens.size(); ++i) {
      const TraceRequest& request = trace.requests[request_of[pass.tokens[i]]];
      domains.insert(request.domain);
      ASSERT_EQ(pass.tokens[i] - request.first < request.prompt, static_cast<int>(i) >= decoding);
    }
  }
  EXPECT_EQ(prefill, (std::vector<int>{64, 36}));
  EXPECT_EQ(decode, std::vector<int>(50, 1));  // the prompt's last pass gives the first token
  EXPECT_EQ(domains.size(), 1u);
  EXPECT_DOUBLE_EQ(pass.start_s, 10);
  EXPECT_EQ(pass.prefill_tokens, 30);
  options.keep_lengths = true;  // the arrivals' times with the trace's own requests
  Replay own(trace, all_requests(trace), options);
  EXPECT_EQ(own.next().prefill_tokens, 20);
}

TEST(Replay, AServerThatIsTooSlowKeepsRequestsWaiting) {
  const RoutingTrace trace = decode_trace(std::vector<int>(40, 100));
  ReplayOptions options;
  options.rate = 100;
  options.max_active = 8;
  Replay replay(trace, all_requests(trace), options);
  replay.skip(200);
  const ForwardPass pass = replay.next();
  EXPECT_EQ(pass.tokens.size(), 8u);
  EXPECT_GT(pass.waiting, 200);  // 400 came in 4 s, 16 were served
}

TEST(Replay, TheSameSeedGivesTheSamePasses) {
  const RoutingTrace trace = request_trace({30, 40, 50, 60, 70});
  auto tokens_of = [&](std::uint64_t seed) {
    ReplayOptions options;
    options.concurrency = 4;
    options.seed = seed;
    Replay replay(trace, all_requests(trace), options);
    std::vector<std::int64_t> tokens;
    for (int p = 0; p < 50; ++p) {
      const ForwardPass pass = replay.next();
      tokens.insert(tokens.end(), pass.tokens.begin(), pass.tokens.end());
    }
    return tokens;
  };
  EXPECT_EQ(tokens_of(1), tokens_of(1));
  EXPECT_NE(tokens_of(1), tokens_of(2));
}

TEST(Replay, ABurstReachesItsSizeWithoutATokenTwice) {
  const RoutingTrace trace = request_trace(std::vector<int>(40, 100));
  ReplayOptions options;
  options.concurrency = 5;
  Replay replay(trace, all_requests(trace), options);
  for (const int want : {5, 64, 500, 1500}) {
    const ForwardPass pass = replay.next_with_burst(want);
    EXPECT_EQ(static_cast<int>(pass.tokens.size()), want);
    EXPECT_EQ(std::set<std::int64_t>(pass.tokens.begin(), pass.tokens.end()).size(),
              pass.tokens.size());
  }
  // 40 prompts of 50 tokens are all there is.
  const ForwardPass all = replay.next_with_burst(100000);
  EXPECT_LE(all.tokens.size(), 2005u);
  EXPECT_GT(all.tokens.size(), 1700u);
}

TEST(Replay, RefusesWhatItCannotReplay) {
  const RoutingTrace empty = request_trace({});
  EXPECT_THROW(Replay(empty, {}, {}), Error);
  const RoutingTrace trace = request_trace({3});
  const std::vector<int> all = all_requests(trace);
  for (const ReplayOptions& options :
       {ReplayOptions{.concurrency = 0}, ReplayOptions{.token_budget = 0},
        ReplayOptions{.rate = -1}, ReplayOptions{.rate = 1, .pass_ms = 0}})
    EXPECT_THROW(Replay(trace, all, options), Error);
}

TEST(Split, NoRequestIsInBothGroupsAndEveryDomainIsInBoth) {
  const RoutingTrace trace = request_trace(std::vector<int>(31, 10));
  for (const double share : {0.1, 0.5, 0.9}) {
    const RequestSplit split = split_requests(trace, share, 4);
    std::set<int> train(split.train.begin(), split.train.end()), both;
    std::set<int> domains_train, domains_test;
    for (const int r : split.test) {
      if (train.contains(r)) both.insert(r);
      domains_test.insert(trace.requests[r].domain);
    }
    for (const int r : split.train) domains_train.insert(trace.requests[r].domain);
    EXPECT_TRUE(both.empty());
    EXPECT_EQ(split.train.size() + split.test.size(), 31u);
    EXPECT_EQ(domains_train.size(), 2u);
    EXPECT_EQ(domains_test.size(), 2u);
    EXPECT_NEAR(static_cast<double>(split.test.size()) / 31, share, 0.07);
  }
  EXPECT_TRUE(split_requests(trace, 0, 4).test.empty());
  EXPECT_THROW(split_requests(trace, 1.0, 4), Error);
}

TEST(Split, AHeldOutDomainIsTheWholeTestGroup) {
  const RoutingTrace trace = request_trace(std::vector<int>(30, 10));
  const RequestSplit split = split_requests(trace, 0.5, 4, "code");
  EXPECT_EQ(split.test.size(), 15u);
  for (const int r : split.test) EXPECT_EQ(trace.domains[trace.requests[r].domain], "code");
  for (const int r : split.train) EXPECT_EQ(trace.domains[trace.requests[r].domain], "math");
  const std::string error = error_of([&] { split_requests(trace, 0.5, 4, "poetry"); });
  EXPECT_NE(error.find("math, code"), std::string::npos) << error;
}

std::set<int> requests_of(const RoutingTrace& trace, const std::vector<int>& passes) {
  const std::vector<std::int32_t> request_of = request_of_tokens(trace);
  std::set<int> requests;
  for (const int p : passes)
    for (std::int64_t t = trace.pass_offsets[p]; t < trace.pass_offsets[p + 1]; ++t)
      requests.insert(request_of[t]);
  return requests;
}

TEST(Split, PassesOfOneSessionStayTogether) {
  const RoutingTrace trace = pass_trace(8, 3, 10);
  const PassSplit split = split_passes(trace, 0.5, 1);
  EXPECT_EQ(split.train.size(), 40u);
  EXPECT_EQ(split.test.size(), 40u);
  std::vector<int> shared;
  const std::set<int> train = requests_of(trace, split.train),
                      test = requests_of(trace, split.test);
  std::set_intersection(train.begin(), train.end(), test.begin(), test.end(),
                        std::back_inserter(shared));
  EXPECT_TRUE(shared.empty());
  EXPECT_NE(split.how.find("8 serving sessions"), std::string::npos) << split.how;
  const PassSplit held_out = split_passes(trace, 0.5, 1, "math");
  EXPECT_EQ(held_out.test.size(), 40u);
  for (const int r : requests_of(trace, held_out.train)) EXPECT_EQ(trace.requests[r].domain, 1);
}

// One long session: by time, and what hangs over the cut belongs to neither side.
TEST(Split, OneSessionIsSplitByTimeWithoutSharedRequests) {
  RoutingTrace trace = request_trace({});
  Random random(2);
  // Request r is active in passes r .. r + 4.
  std::vector<std::vector<std::int64_t>> members(40);
  trace.pass_offsets = {0};
  std::int64_t token = 0;
  for (int p = 0; p < 40; ++p) {
    for (int r = std::max(0, p - 4); r <= p; ++r) members[r].push_back(token++);
    trace.pass_offsets.push_back(token);
  }
  for (auto& tokens : members) {
    trace.requests.push_back(
        {0, 0, static_cast<std::int64_t>(trace.order.size()), static_cast<int>(tokens.size())});
    trace.order.insert(trace.order.end(), tokens.begin(), tokens.end());
  }
  trace.ids = random_ids(token * 2, 16, 3, random);
  check_trace(trace);
  const PassSplit split = split_passes(trace, 0.5, 1);
  EXPECT_EQ(split.train.size(), 20u);
  EXPECT_EQ(split.test.size(), 16u);  // four passes hold requests of the first half
  for (const int r : requests_of(trace, split.test))
    EXPECT_FALSE(requests_of(trace, split.train).contains(r));
}

}  // namespace
}  // namespace ramp
