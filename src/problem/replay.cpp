// SPDX-License-Identifier: Apache-2.0
#include "problem/replay.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_set>

#include "base/error.hpp"

namespace ramp {
namespace {

bool has_both_phases(const RoutingTrace& trace) {
  bool prompt = false, decode = false;
  for (const TraceRequest& request : trace.requests) {
    prompt = prompt || request.prompt > 0;
    decode = decode || request.tokens > request.prompt;
  }
  return prompt && decode;
}

int find_domain(const RoutingTrace& trace, const std::string& name) {
  std::string known;
  for (std::size_t i = 0; i < trace.domains.size(); ++i) {
    if (trace.domains[i] == name) return static_cast<int>(i);
    known += (i == 0 ? "" : ", ") + trace.domains[i];
  }
  throw Error("domain", "'" + name + "'", known.empty() ? "none: the trace has no domains" : known,
              "pick one of these");
}

void check_share(double share) {
  if (!(share >= 0 && share < 1))
    throw Error("--test-share", fmt::format("{}", share), "0 .. 1, without 1", "for example 0.5");
}

}  // namespace

Replay::Replay(const RoutingTrace& trace, std::span<const int> requests,
               const ReplayOptions& options)
    : trace_(trace), options_(options), random_(options.seed, 17) {
  for (const int r : requests)
    if (trace.requests.at(r).tokens > 0) pool_.push_back(r);
  if (pool_.empty())
    throw Error("requests", "none with tokens", "a trace grouped by request",
                "import one with request_offsets, or use its recorded passes");
  if (options.concurrency < 1 || options.concurrency > 65536)
    throw Error("--concurrency", fmt::format("{}", options.concurrency), "1 .. 65536",
                "for example 64");
  if (options.token_budget < 1 || options.token_budget > (1 << 20))
    throw Error("--budget", fmt::format("{}", options.token_budget), "1 .. 1048576",
                "for example 2048");
  if (options.rate < 0 || !std::isfinite(options.rate) || !(options.pass_ms > 0))
    throw Error("--rate, --pass-ms", fmt::format("{}, {}", options.rate, options.pass_ms),
                "positive numbers", "for example --rate 16 --pass-ms 20");
  stream_ = options.prompts == Prompts::kStream ||
            (options.prompts == Prompts::kAuto && !has_both_phases(trace));
  if (options_.rate > 0) {
    next_arrival_s_ = -std::log(random_.uniform()) / options_.rate;
    return;
  }
  // A loop that has run for long: each active request is somewhere inside, longer ones more often.
  std::vector<std::int64_t> ends;
  std::int64_t total = 0;
  for (const int r : pool_) ends.push_back(total += trace_.requests[r].tokens);
  std::unordered_set<int> used;
  const bool distinct = pool_.size() >= 2 * static_cast<std::size_t>(options_.concurrency);
  while (static_cast<int>(active_.size()) < options_.concurrency) {
    const auto token = static_cast<std::int64_t>(random_.below(total));
    const std::size_t i = std::upper_bound(ends.begin(), ends.end(), token) - ends.begin();
    if (distinct && !used.insert(pool_[i]).second) continue;
    const TraceRequest& request = trace_.requests[pool_[i]];
    const int at = static_cast<int>(request.tokens - (ends[i] - token));
    const int prompt = prompt_of(request);
    // Inside its prompt: it is admitted now, from the start.
    active_.push_back(at < prompt ? Active{pool_[i], 0, prompt} : Active{pool_[i], at, 0});
  }
}

int Replay::prompt_of(const TraceRequest& request) const { return stream_ ? 0 : request.prompt; }

int Replay::take_request() {
  if (queue_.empty()) {
    queue_ = pool_;
    random_.shuffle(queue_);
  }
  const int request = queue_.back();
  queue_.pop_back();
  return request;
}

void Replay::admit() {
  auto add = [&] {
    const int request = take_request();
    active_.push_back({request, 0, prompt_of(trace_.requests[request])});
  };
  if (options_.rate <= 0) {
    while (static_cast<int>(active_.size()) < options_.concurrency) add();
    return;
  }
  do {
    // An idle server waits for the next request: there is no pass without a token.
    if (active_.empty()) clock_s_ = std::max(clock_s_, next_arrival_s_);
    while (next_arrival_s_ <= clock_s_) {
      add();
      next_arrival_s_ += -std::log(random_.uniform()) / options_.rate;
    }
  } while (active_.empty());
  clock_s_ += options_.pass_ms / 1000;
}

ForwardPass Replay::next() {
  admit();
  ForwardPass pass;
  int budget = options_.token_budget;
  for (Active& one : active_) {
    if (one.prefill > 0 || budget == 0) continue;
    pass.tokens.push_back(trace_.token_of(trace_.requests[one.request], one.at++));
    --budget;
  }
  for (Active& one : active_) {
    const int chunk = std::min(one.prefill, budget);
    for (int i = 0; i < chunk; ++i)
      pass.tokens.push_back(trace_.token_of(trace_.requests[one.request], one.at++));
    one.prefill -= chunk;
    budget -= chunk;
    pass.prefill_tokens += chunk;
  }
  std::erase_if(active_,
                [&](const Active& one) { return one.at >= trace_.requests[one.request].tokens; });
  finish(pass);
  return pass;
}

void Replay::skip(int passes) {
  for (int i = 0; i < passes; ++i) next();
}

ForwardPass Replay::next_with_burst(int tokens) {
  admit();
  ForwardPass pass;
  std::unordered_set<std::int64_t> seen;
  std::unordered_set<int> used;
  auto put = [&](std::int64_t token) {
    if (seen.insert(token).second) pass.tokens.push_back(token);
  };
  for (const Active& one : active_) {
    used.insert(one.request);
    if (one.prefill == 0 && static_cast<int>(pass.tokens.size()) < tokens)
      put(trace_.token_of(trace_.requests[one.request], one.at));
  }
  const int decoding = static_cast<int>(pass.tokens.size());
  std::vector<int> waiting;
  for (const int r : pool_)
    if (!used.contains(r)) waiting.push_back(r);
  if (waiting.empty()) waiting = pool_;
  random_.shuffle(waiting);
  for (const int r : waiting) {
    const TraceRequest& request = trace_.requests[r];
    int prompt = request.prompt;
    if (prompt == 0) {
      // 32 .. 1,024, evenly on a logarithmic scale: the lengths of chat prompts.
      prompt = static_cast<int>(32 * std::exp2(5 * random_.uniform()));
      prompt = std::min(prompt, request.tokens);
    }
    for (int i = 0; i < prompt && static_cast<int>(pass.tokens.size()) < tokens; ++i)
      put(trace_.token_of(request, i));
    if (static_cast<int>(pass.tokens.size()) >= tokens) break;
  }
  pass.prefill_tokens = static_cast<int>(pass.tokens.size()) - decoding;
  finish(pass);
  return pass;
}

void Replay::finish(ForwardPass& pass) const {
  // The pool says it: a replay of one domain has one, and a mixed one is called mixed even where
  // chance made it pure.
  pass.domain = trace_.requests[pool_.front()].domain;
  for (const int r : pool_)
    if (trace_.requests[r].domain != pass.domain) {
      pass.domain = -1;
      return;
    }
}

RequestSplit split_requests(const RoutingTrace& trace, double test_share, std::uint64_t seed,
                            const std::string& held_out_domain) {
  check_share(test_share);
  RequestSplit split;
  const int held_out = held_out_domain.empty() ? -1 : find_domain(trace, held_out_domain);
  Random random(seed, 3);
  for (int domain = 0; domain < static_cast<int>(trace.domains.size()); ++domain) {
    std::vector<int> members;
    for (std::size_t r = 0; r < trace.requests.size(); ++r)
      if (trace.requests[r].domain == domain && trace.requests[r].tokens > 0)
        members.push_back(static_cast<int>(r));
    random.shuffle(members);
    std::size_t tests =
        static_cast<std::size_t>(std::lround(test_share * static_cast<double>(members.size())));
    if (held_out >= 0)
      tests = domain == held_out ? members.size() : 0;
    else if (test_share > 0 &&
             members.size() > 1)  // both groups know every domain that has two requests
      tests = std::clamp<std::size_t>(tests, 1, members.size() - 1);
    split.test.insert(split.test.end(), members.begin(), members.begin() + tests);
    split.train.insert(split.train.end(), members.begin() + tests, members.end());
  }
  std::sort(split.train.begin(), split.train.end());
  std::sort(split.test.begin(), split.test.end());
  return split;
}

std::vector<std::int32_t> request_of_tokens(const RoutingTrace& trace) {
  std::vector<std::int32_t> request_of(trace.tokens(), -1);
  for (std::size_t r = 0; r < trace.requests.size(); ++r)
    for (int i = 0; i < trace.requests[r].tokens; ++i)
      request_of[trace.token_of(trace.requests[r], i)] = static_cast<std::int32_t>(r);
  return request_of;
}

ForwardPass recorded_pass(const RoutingTrace& trace, int p,
                          std::span<const std::int32_t> request_of_token) {
  ForwardPass pass;
  bool first = true;
  std::int32_t previous = -1;
  for (std::int64_t t = trace.pass_offsets[p]; t < trace.pass_offsets[p + 1]; ++t) {
    pass.tokens.push_back(t);
    const std::int32_t r = request_of_token[t];
    const int domain = r < 0 ? -1 : trace.requests[r].domain;
    if (first) pass.domain = domain;
    if (domain != pass.domain) pass.domain = -1;
    // Several tokens of one request in one pass are a prompt's chunk.
    if (r >= 0 && r == previous) pass.prefill_tokens += pass.prefill_tokens == 0 ? 2 : 1;
    previous = r;
    first = false;
  }
  return pass;
}

PassSplit split_passes(const RoutingTrace& trace, double test_share, std::uint64_t seed,
                       const std::string& held_out_domain) {
  check_share(test_share);
  PassSplit split;
  const int passes = trace.passes();
  const std::vector<std::int32_t> request_of = request_of_tokens(trace);
  std::vector<int> domain_of(passes, -1);
  std::vector<int> parent(trace.requests.size());
  for (std::size_t i = 0; i < parent.size(); ++i) parent[i] = static_cast<int>(i);
  auto root = [&](int r) {
    while (parent[r] != r) r = parent[r] = parent[parent[r]];
    return r;
  };
  std::vector<int> group_of(passes, -1);  // a request that the pass holds
  for (int p = 0; p < passes; ++p)
    for (std::int64_t t = trace.pass_offsets[p]; t < trace.pass_offsets[p + 1]; ++t) {
      if (request_of[t] < 0) continue;
      if (group_of[p] < 0) {
        group_of[p] = request_of[t];
        domain_of[p] = trace.requests[request_of[t]].domain;
      } else {
        parent[root(request_of[t])] = root(group_of[p]);
        if (trace.requests[request_of[t]].domain != domain_of[p]) domain_of[p] = -1;
      }
    }
  if (!held_out_domain.empty()) {
    const int held_out = find_domain(trace, held_out_domain);
    for (int p = 0; p < passes; ++p) {
      bool holds = false;
      for (std::int64_t t = trace.pass_offsets[p]; t < trace.pass_offsets[p + 1]; ++t)
        holds = holds || (request_of[t] >= 0 && trace.requests[request_of[t]].domain == held_out);
      if (domain_of[p] == held_out)
        split.test.push_back(p);
      else if (!holds)
        split.train.push_back(p);
    }
    split.how = fmt::format("held out: domain {}", held_out_domain);
    return split;
  }
  // The sessions, grouped by domain so that both sides see every domain.
  std::vector<std::set<int>> sets(trace.domains.size() + 1);
  for (int p = 0; p < passes; ++p)
    if (group_of[p] >= 0)
      sets[domain_of[p] < 0 ? trace.domains.size() : domain_of[p]].insert(root(group_of[p]));
  std::vector<std::vector<int>> sessions_of;
  for (const std::set<int>& set : sets) sessions_of.emplace_back(set.begin(), set.end());
  std::size_t sessions = 0;
  for (const auto& list : sessions_of) sessions += list.size();
  Random random(seed, 4);
  if (test_share > 0 && sessions >= 2) {
    std::unordered_set<int> tests;
    for (auto& list : sessions_of) {
      if (list.empty()) continue;
      random.shuffle(list);
      std::size_t n =
          static_cast<std::size_t>(std::lround(test_share * static_cast<double>(list.size())));
      if (list.size() > 1) n = std::clamp<std::size_t>(n, 1, list.size() - 1);
      tests.insert(list.begin(), list.begin() + n);
    }
    for (int p = 0; p < passes; ++p)
      (group_of[p] >= 0 && tests.contains(root(group_of[p])) ? split.test : split.train)
          .push_back(p);
    split.how = fmt::format("{} serving sessions without a request in common, {} held out",
                            sessions, tests.size());
    return split;
  }
  const int cut = static_cast<int>(std::lround((1 - test_share) * passes));
  std::unordered_set<int> early;
  for (std::int64_t t = 0; cut > 0 && t < trace.pass_offsets[cut]; ++t)
    if (request_of[t] >= 0) early.insert(request_of[t]);
  for (int p = 0; p < passes; ++p) {
    bool shared = false;
    if (p >= cut)
      for (std::int64_t t = trace.pass_offsets[p]; t < trace.pass_offsets[p + 1]; ++t)
        shared = shared || (request_of[t] >= 0 && early.contains(request_of[t]));
    if (p < cut)
      split.train.push_back(p);
    else if (!shared)
      split.test.push_back(p);
  }
  split.how = trace.requests.empty()
                  ? "by time: the trace does not say which tokens are one request"
                  : "by time, without passes that share a request";
  return split;
}

}  // namespace ramp
