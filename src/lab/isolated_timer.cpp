// SPDX-License-Identifier: Apache-2.0
#include "lab/isolated_timer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace ramp {
namespace {

// The part of a request that is about some of its labels; where[i]: which cell of the whole request
// cell i is.
MeasureRequest part_of(const MeasureRequest& whole, const std::set<std::string>& labels,
                       std::vector<std::size_t>& where) {
  MeasureRequest part;
  part.loads = whole.loads;
  part.rounds = whole.rounds;
  std::vector<int> place(whole.labels.size(), -1);
  for (std::size_t i = 0; i < whole.labels.size(); ++i)
    if (labels.count(whole.labels[i])) {
      place[i] = static_cast<int>(part.labels.size());
      part.labels.push_back(whole.labels[i]);
    }
  for (std::size_t i = 0; i < whole.cells.size(); ++i)
    if (place[static_cast<std::size_t>(whole.cells[i].config)] >= 0) {
      Cell cell = whole.cells[i];
      cell.config = place[static_cast<std::size_t>(cell.config)];
      part.cells.push_back(cell);
      where.push_back(i);
    }
  return part;
}

// When so many fail one after the other before any works, it is not they: a load that doesn't fit,
// a GPU that is gone. Nobody is quarantined for that.
constexpr int kBlameMachine = 3;

[[noreturn]] void blame_machine(const std::string& reason) {
  throw Error("worker process",
              fmt::format("{} configurations in a row failed ({})", kBlameMachine, reason),
              "a machine on which some work",
              "see `ramp doctor`, and run the same command again to go on");
}

}  // namespace

IsolatedTimer::IsolatedTimer(Spawn spawn, const LocalShape& shape, const WorkerLimits& limits,
                             const std::atomic<bool>* interrupted)
    : spawn_(std::move(spawn)), shape_(shape), limits_(limits), interrupted_(interrupted) {
  start();
}

void IsolatedTimer::start() {
  worker_.reset();
  ready_.clear();
  has_measured_ = false;
  worker_ = std::make_unique<WorkerProcess>(spawn_, interrupted_);
  Reply reply;
  if (auto death =
          worker_->call({.kind = Request::Kind::kOpen, .shape = shape_}, limits_.open, reply)) {
    worker_.reset();
    throw Error("worker process", death->reason, "one that starts and opens the GPU",
                "try `ramp doctor`");
  }
  if (!reply.error.empty()) {
    worker_.reset();
    throw Error(reply.error);
  }
  environment_ = reply.environment;
  if (space_.empty()) space_ = reply.configs;
}

// After any failure the process is gone: an exception on the GPU poisons the context as well as a
// crash does.
std::optional<Death> IsolatedTimer::call(const Request& request, double seconds, Reply& reply,
                                         const PrepareProgress& progress) {
  if (!worker_) start();
  std::optional<Death> death = worker_->call(request, seconds, reply, progress);
  if (!death && !reply.error.empty()) death = Death{false, "failed: " + reply.error};
  if (death) {
    worker_.reset();
    ++deaths_;
  }
  return death;
}

std::optional<Death> IsolatedTimer::make_ready(const std::vector<std::string>& labels) {
  if (!worker_) start();
  Request request{.kind = Request::Kind::kPrepare};
  for (const std::string& label : labels)
    if (!ready_.count(label)) request.labels.push_back(label);
  if (request.labels.empty()) return std::nullopt;
  Reply reply;
  if (auto death = call(request, limits_.prepare, reply)) return death;
  ready_.insert(request.labels.begin(), request.labels.end());
  return std::nullopt;
}

std::vector<TimedConfig> IsolatedTimer::prepare(const std::vector<std::string>& labels,
                                                const PrepareProgress& progress) {
  Reply reply;
  Request request{.kind = Request::Kind::kPrepare, .labels = labels};
  const auto same_labels = [&labels](const Reply& answer) {
    return std::equal(
        labels.begin(), labels.end(), answer.configs.begin(), answer.configs.end(),
        [](const std::string& label, const TimedConfig& c) { return label == c.candidate.label; });
  };
  if (labels.empty()) return {};
  std::optional<Death> death = call(request, limits_.prepare, reply, progress);
  if (!death && !same_labels(reply)) {
    worker_.reset();
    death = Death{false, "answered about other configurations"};
  }
  if (!death) {
    ready_.insert(labels.begin(), labels.end());
    return reply.configs;
  }
  // One at a time, each in turn, to find who did it; alone twice where it is one already.
  std::vector<TimedConfig> configs;
  int done = 0;
  for (const std::string& label : labels) {
    const auto known = std::find_if(space_.begin(), space_.end(), [&](const TimedConfig& c) {
      return c.candidate.label == label;
    });
    TimedConfig config = known == space_.end() ? TimedConfig{} : *known;
    config.candidate.label = label;
    Reply alone;
    if (auto again =
            call({.kind = Request::Kind::kPrepare, .labels = {label}}, limits_.prepare, alone)) {
      config.status = ConfigStatus::kQuarantined;
      config.reason = "compiling: " + again->reason;
    } else if (alone.configs.size() == 1) {
      config = alone.configs.front();
      ready_.insert(label);
    }
    configs.push_back(std::move(config));
    if (progress) progress(++done, static_cast<int>(labels.size()));
  }
  return configs;
}

IsolatedTimer::Verdict IsolatedTimer::verify(const std::string& label) {
  std::optional<Death> death;
  for (int strike = 0; strike < 2; ++strike) {
    death = make_ready({label});
    if (death) continue;
    Reply reply;
    death = call({.kind = Request::Kind::kVerify, .labels = {label}}, limits_.verify, reply);
    if (!death)
      return {reply.verdict.empty() ? ConfigStatus::kOk : ConfigStatus::kWrong, reply.verdict};
  }
  return {ConfigStatus::kQuarantined, "checking its numbers: " + death->reason};
}

std::optional<Death> IsolatedTimer::try_measure(const MeasureRequest& request, double expected_s,
                                                Measurement& into) {
  if (auto death = make_ready(request.labels)) return death;
  double seconds = std::max(limits_.measure_least, limits_.measure_factor * expected_s);
  if (!has_measured_) seconds = std::max(seconds, limits_.first_measure);
  Reply reply;
  if (auto death = call({.kind = Request::Kind::kMeasure, .measure = request}, seconds, reply))
    return death;
  has_measured_ = true;
  bool whole = reply.samples.size() == request.cells.size();
  for (const auto& rounds : reply.samples) {
    whole = whole && static_cast<int>(rounds.size()) == request.rounds;
    for (const Sample& sample : rounds) whole = whole && std::isfinite(sample.us) && sample.us > 0;
  }
  if (!whole) {
    worker_.reset();
    ++deaths_;
    return Death{false, "answered with times that are none"};
  }
  into.samples = std::move(reply.samples);
  return std::nullopt;
}

Measurement IsolatedTimer::measure(const MeasureRequest& request, double expected_s) {
  Measurement all;
  all.samples.resize(request.cells.size());
  std::set<std::string> left(request.labels.begin(), request.labels.end());
  const auto keep = [&all](const Measurement& part, const std::vector<std::size_t>& where) {
    for (std::size_t i = 0; i < where.size(); ++i) all.samples[where[i]] = part.samples[i];
  };
  bool found_culprit = true;
  // Together, for the sake of interleaving, as long as each failure is followed by a culprit.
  for (int attempt = 0; !left.empty(); ++attempt) {
    std::vector<std::size_t> where;
    const MeasureRequest part = part_of(request, left, where);
    Measurement measured;
    const std::optional<Death> death = try_measure(part, expected_s, measured);
    if (!death) {
      keep(measured, where);
      return all;
    }
    if (!found_culprit) break;
    found_culprit = false;
    int in_a_row = 0;
    for (const std::string& label : std::set<std::string>(left)) {
      std::vector<std::size_t> unused;
      MeasureRequest alone = part_of(request, {label}, unused);
      alone.rounds = 1;
      if (auto again = try_measure(alone, expected_s, measured)) {
        all.quarantined.push_back({label, "timing: " + again->reason});
        left.erase(label);
        found_culprit = true;
        if (++in_a_row == kBlameMachine && part.labels.size() > 1) blame_machine(again->reason);
      } else {
        in_a_row = kBlameMachine;  // one that works: the machine is fine
      }
    }
  }
  // Twice together and never alone: time them alone.
  for (const std::string& label : left) {
    std::vector<std::size_t> where;
    const MeasureRequest alone = part_of(request, {label}, where);
    Measurement measured;
    if (auto death = try_measure(alone, expected_s, measured))
      all.quarantined.push_back({label, "timing: " + death->reason});
    else
      keep(measured, where);
  }
  return all;
}

}  // namespace ramp
