// SPDX-License-Identifier: Apache-2.0
#include "problem/split.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_set>

#include "base/error.hpp"
#include "problem/random.hpp"
#include "problem/replay.hpp"

namespace ramp {
namespace {

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
