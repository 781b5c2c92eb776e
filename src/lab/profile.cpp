// SPDX-License-Identifier: Apache-2.0
#include "lab/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/build.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "choice/sizes.hpp"
#include "lab/campaign_minutes.hpp"

namespace ramp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRetakes = 3;  // of throttled samples, before a cell is left for another run
constexpr std::size_t kBlameMachine =
    3;                      // failures before anything worked: not the configurations' fault
constexpr int kPauses = 3;  // when a whole batch came throttled
constexpr double kFirstGuess = 0.0002;  // s a sample takes, until the first batch says
// The first anchors take the configurations in so many slices, so that a budget too short for all
// of them has timed a choice of them on every range of sizes.
constexpr std::size_t kSlices = 4;
constexpr std::size_t kMaxBatch = 8192;  // cells

struct Work {
  std::string label;
  int load = 0;
};

// A cell while its batch is measured.
struct Taking {
  Work work;
  int rounds = 0;  // taken so far, throttled ones too
  std::vector<Sample> samples;
  bool lost = false;  // its configuration was quarantined

  int clean() const {
    return static_cast<int>(std::count_if(samples.begin(), samples.end(),
                                          [](const Sample& s) { return !s.throttled; }));
  }
  std::vector<float> clean_us() const {
    std::vector<float> us;
    for (const Sample& s : samples)
      if (!s.throttled) us.push_back(s.us);
    return us;
  }
};

// Seconds a sample takes, by the size of its load: large loads take a hundred times as long as
// small ones, and a batch that was reckoned by the others' mean would overrun its share of the
// budget.
class Pace {
 public:
  bool knows(int pairs) const { return s_[bucket(pairs)] > 0; }
  double sample_s(int pairs) const {
    const std::size_t at = bucket(pairs);
    for (std::size_t away = 0; away < s_.size(); ++away) {
      if (at + away < s_.size() && s_[at + away] > 0) return s_[at + away];
      if (at >= away && s_[at - away] > 0) return s_[at - away];
    }
    return kFirstGuess;
  }
  // samples[pairs of a load]: how many of a batch that took `spent` seconds.
  void learn(const std::map<int, double>& samples, double spent) {
    double expected = 0;
    for (const auto& [pairs, n] : samples) expected += n * sample_s(pairs);
    for (const auto& [pairs, n] : samples) {
      const double seen = sample_s(pairs) * spent / expected;
      double& s = s_[bucket(pairs)];
      s = s > 0 ? 0.7 * s + 0.3 * seen : seen;
    }
  }

 private:
  static std::size_t bucket(int pairs) {
    return static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(pairs)));
  }
  std::array<double, 33> s_{};
};

std::string options_text(const CampaignOptions& o) {
  return fmt::format("seed {}, anchors {}, margin {}, random share {}, rounds {} to {}, spread {}",
                     o.plan.seed, o.plan.anchors, o.plan.margin, o.plan.random_share, o.rounds,
                     o.max_rounds, o.max_spread);
}

class Campaign {
 public:
  Campaign(MeasurementStore& store, Workload workload, const Spawn& spawn,
           const CampaignOptions& options, const CampaignEvents& events,
           const std::atomic<bool>* interrupted)
      : store_(store),
        workload_(std::move(workload)),
        options_(options),
        events_(events),
        interrupted_(interrupted),
        timer_(spawn, workload_.shape, options.worker, interrupted) {
    for (const auto& load : workload_.loads)
      pairs_of_.push_back(std::accumulate(load.begin(), load.end(), 0));
  }

  CampaignReport run() {
    begin();
    try {
      compile();
      check();
      started_ = Clock::now();
      finish_plan(measure_all());
    } catch (const Interrupted&) {
      report_.end = CampaignReport::End::kInterrupted;
    }
    summarise();
    return report_;
  }

 private:
  void note(const std::string& text) const {
    if (events_.note) events_.note(text);
  }

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }
  bool out_of_budget() const { return options_.minutes > 0 && elapsed() >= options_.minutes * 60; }
  void look_for_interrupt() const {
    if (interrupted_ && *interrupted_) throw Interrupted();
  }

  void begin() {
    Provenance& p = workload_.provenance;
    const Provenance& machine = timer_.environment();
    p.gpu = machine.gpu;
    p.driver = machine.driver;
    p.toolkit = machine.toolkit;
    p.sources = machine.sources;
    p.how = machine.how;
    p.commit = build_commit();
    p.date = today();
    if (workload_.loads.empty())
      throw Error("workload", "no loads", "at least one pass with a token", "use a longer trace");
    store_.begin(workload_);
    const std::string text = options_text(options_);
    if (const auto before = store_.note("options"); before && *before != text)
      throw Error("options", text, *before,
                  "the file was begun with those: repeat them, or give another -o");
    store_.set_note("options", text);

    std::map<std::string, TimedConfig> known;
    for (TimedConfig& config : store_.configs()) known[config.candidate.label] = config;
    std::vector<TimedConfig> fresh;
    for (const TimedConfig& config : timer_.space())
      if (!known.count(config.candidate.label)) fresh.push_back(config);
    store_.put(fresh);
    reload_configs();
    // Configurations that the file has and this program no longer offers can't be run again; what
    // was measured stays.
    for (auto& [label, config] : known)
      if (std::none_of(timer_.space().begin(), timer_.space().end(),
                       [&](const TimedConfig& c) { return c.candidate.label == label; }))
        gone_.insert(label);
    const auto legal = std::count_if(configs_.begin(), configs_.end(), [](const TimedConfig& c) {
      return c.status == ConfigStatus::kNew || c.status == ConfigStatus::kOk;
    });
    if (legal == 0)
      throw Error(
          "configurations", fmt::format("none of {} can run", configs_.size()), "at least one",
          configs_.empty() ? "no kernel family knows this shape"
                           : fmt::format("the first is refused: {}", configs_.front().reason));
    note(fmt::format(
        "{} configurations, {} of them legal for {} experts x {} x {} on each of {} GPUs; {} "
        "passes with {} different loads",
        configs_.size(), legal, workload_.shape.experts, workload_.shape.hidden,
        workload_.shape.intermediate, workload_.gpus, workload_.passes.size(),
        workload_.loads.size()));
    if (const long long cells = store_.cells(); cells > 0)
      note(fmt::format("going on: {} cells are measured already", cells));
  }

  void reload_configs() { configs_ = store_.configs(); }

  std::vector<std::string> labels_with(ConfigStatus status) const {
    std::vector<std::string> labels;
    for (const TimedConfig& config : configs_)
      if (config.status == status && !gone_.count(config.candidate.label))
        labels.push_back(config.candidate.label);
    return labels;
  }

  // All that may still be timed, from the cubin cache where they were compiled before.
  void compile() {
    const auto start = Clock::now();
    const auto progress = [&](int done, int total) {
      const double spent = std::chrono::duration<double>(Clock::now() - start).count();
      tell({"compiling", done, total, spent, done ? spent / done * (total - done) : 0, 0});
    };
    const std::vector<std::string> fresh = labels_with(ConfigStatus::kNew);
    if (!fresh.empty()) {
      const std::vector<TimedConfig> compiled = timer_.prepare(fresh, progress);
      store_.put(compiled);
      for (const TimedConfig& config : compiled)
        if (config.status == ConfigStatus::kQuarantined)
          note(fmt::format("quarantined {}: {}", config.candidate.label, config.reason));
    }
    if (const auto ok = labels_with(ConfigStatus::kOk); !ok.empty()) timer_.prepare(ok, progress);
    reload_configs();
  }

  // Numbers before times: a configuration that is wrong is never timed.
  void check() {
    const auto start = Clock::now();
    const std::vector<std::string> unchecked = labels_with(ConfigStatus::kNew);
    int done = 0;
    std::vector<std::string> failed;  // before any worked
    bool one_works = !labels_with(ConfigStatus::kOk).empty();
    for (const std::string& label : unchecked) {
      look_for_interrupt();
      const IsolatedTimer::Verdict verdict = timer_.verify(label);
      store_.set_status(label, verdict.status, verdict.reason);
      if (verdict.status != ConfigStatus::kOk)
        note(fmt::format("{} {}: {}", status_name(verdict.status), label, verdict.reason));
      one_works = one_works || verdict.status != ConfigStatus::kQuarantined;
      if (!one_works) failed.push_back(label);
      if (failed.size() == kBlameMachine && !one_works) {
        for (const std::string& innocent : failed)
          store_.set_status(innocent, ConfigStatus::kNew, "");
        throw Error(
            "worker process",
            fmt::format("the first {} configurations failed ({})", failed.size(), verdict.reason),
            "a machine on which some work", "see `ramp doctor`, and run the same command again");
      }
      ++done;
      const double spent = std::chrono::duration<double>(Clock::now() - start).count();
      const int total = static_cast<int>(unchecked.size());
      tell({"checking", done, total, spent, spent / done * (total - done), 0});
    }
    reload_configs();
    if (labels_with(ConfigStatus::kOk).empty())
      throw Error("configurations", "none that is right", "at least one",
                  "see `ramp check` for what is wrong with them");
  }

  // False: the budget ended first.
  bool measure_all() {
    const std::vector<int> anchors = choose_anchors(workload_, options_.plan);
    report_.anchors = static_cast<int>(anchors.size());
    range_of_load_ = ranges_of_loads(workload_);
    const std::vector<std::string> ok = spread_labels();
    const auto loads = static_cast<long long>(workload_.loads.size());
    // Until the anchors are measured nobody knows the contenders; half is a usual share.
    planned_ = static_cast<long long>(anchors.size() * ok.size()) +
               static_cast<long long>(0.5 * static_cast<double>(ok.size()) *
                                      static_cast<double>(loads - report_.anchors));
    const std::string budget =
        options_.minutes > 0 ? fmt::format("{:g} minutes", options_.minutes) : "no limit";
    note(
        fmt::format("plan: {} anchor loads on every configuration, one of each size first, then "
                    "contenders on all loads, then a random {:.0f} % of the rest; budget {}",
                    anchors.size(), 100 * options_.plan.random_share, budget));
    return measure_anchors(anchor_turns(workload_, anchors), ok) && measure_rest(anchors, ok);
  }

  // Those that are right, so that any few of the first are of every kind.
  std::vector<std::string> spread_labels() const {
    std::vector<Candidate> candidates;
    for (const std::string& label : labels_with(ConfigStatus::kOk))
      for (const TimedConfig& config : configs_)
        if (config.candidate.label == label) candidates.push_back(config.candidate);
    std::vector<std::string> labels;
    for (int c : order_configs(candidates))
      labels.push_back(candidates[static_cast<std::size_t>(c)].label);
    return labels;
  }

  // A turn is a load of every range of sizes.  From the second on, what was beaten in a range is
  // put off there until everything that may win is known; what is put off follows from the times of
  // the turns before, so a run that is resumed puts off the same.
  bool measure_anchors(const std::vector<std::vector<int>>& turns,
                       const std::vector<std::string>& ok) {
    std::vector<Work> work;
    for (std::size_t slice = 0; slice < kSlices; ++slice)
      for (int load : turns.front())
        for (std::size_t c = slice * ok.size() / kSlices; c < (slice + 1) * ok.size() / kSlices;
             ++c)
          work.push_back({ok[c], load});
    if (!measure("anchors", work)) return false;
    std::vector<int> seen = turns.front();
    for (std::size_t turn = 1; turn < turns.size(); ++turn) {
      const AnchorTimes times = times_on(seen);
      work.clear();
      for (int load : turns[turn]) {
        const std::set<std::string> beaten = named(times, choose_beaten(of_range(times, load)));
        for (const std::string& label : ok)
          if (beaten.count(label))
            put_off_.emplace(label, load);
          else
            work.push_back({label, load});
      }
      if (!measure("anchors", work)) return false;
      seen.insert(seen.end(), turns[turn].begin(), turns[turn].end());
    }
    return true;
  }

  bool measure_rest(const std::vector<int>& anchors, const std::vector<std::string>& ok) {
    const AnchorTimes times = times_on(anchors);
    const std::set<std::string> contenders =
        named(times, choose_contenders(times.us, options_.plan.margin));
    report_.contenders = static_cast<int>(contenders.size());

    // The least that menus by size need: whole passes of every range on what may win there.
    std::vector<Work> covering, contending, drawn;
    std::map<int, std::set<std::string>> of_size;
    for (int load : covering_loads(workload_)) {
      const int range = range_of_load_[static_cast<std::size_t>(load)];
      if (!of_size.count(range))
        of_size[range] =
            named(times, choose_contenders(of_range(times, load), options_.plan.margin));
      // Of a range without an anchor nothing is known.
      const std::set<std::string>& few = of_size[range].empty() ? contenders : of_size[range];
      for (const std::string& label : ok)
        if (few.count(label)) covering.push_back({label, load});
    }
    const std::set<int> is_anchor(anchors.begin(), anchors.end());
    for (int load : order_loads(workload_))
      for (const std::string& label : ok) {
        if (is_anchor.count(load) && !put_off_.count({label, load})) continue;
        if (contenders.count(label))
          contending.push_back({label, load});
        else if (is_anchor.count(load) ||
                 is_drawn(label, workload_.loads[static_cast<std::size_t>(load)], options_.plan))
          drawn.push_back({label, load});
      }
    planned_ = static_cast<long long>(anchors.size() * ok.size() - put_off_.size() +
                                      contending.size() + drawn.size());
    double left_s = 0;
    for (const std::vector<Work>* part : {&contending, &drawn})
      for (const Work& cell : *part)
        left_s += options_.rounds * pace_.sample_s(pairs_of(cell.load));
    note(fmt::format("{} contenders of {} configurations; {} cells in all{}", contenders.size(),
                     ok.size(), planned_,
                     has_pace_ ? fmt::format(", about {:.0f} s for the {} that are left", left_s,
                                             std::max(planned_ - done_, 0LL))
                               : ""));
    return measure("contenders", covering) && measure("contenders", contending) &&
           measure("random share", drawn);
  }

  // What the anchors say of every configuration, one that was quarantined since too: so that a run
  // which is resumed after the quarantine sees the same contenders.  What was put off is not in it:
  // it may or may not have been timed since.
  struct AnchorTimes {
    std::vector<int> anchors;
    std::vector<std::string> labels;
    std::vector<std::vector<float>> us;  // [label][anchor]
  };
  AnchorTimes times_on(const std::vector<int>& anchors) const {
    AnchorTimes times{anchors, {}, {}};
    std::map<int, std::size_t> place;
    for (std::size_t a = 0; a < anchors.size(); ++a) place[anchors[a]] = a;
    std::unordered_map<std::string, std::size_t> row;
    for (const StoredCell& cell : store_.cells_taken()) {
      const auto anchor = place.find(cell.load);
      if (anchor == place.end() || cell.us.empty() || put_off_.count({cell.label, cell.load}))
        continue;
      const auto [it, is_new] = row.emplace(cell.label, times.us.size());
      if (is_new) {
        times.us.emplace_back(anchors.size(), std::numeric_limits<float>::infinity());
        times.labels.push_back(cell.label);
      }
      times.us[it->second][anchor->second] = median(cell.us);
    }
    return times;
  }

  // The times on those anchors that are of the same range as a load.
  std::vector<std::vector<float>> of_range(const AnchorTimes& times, int load) const {
    std::vector<std::vector<float>> part(times.us.size());
    for (std::size_t a = 0; a < times.anchors.size(); ++a)
      if (range_of_load_[static_cast<std::size_t>(times.anchors[a])] ==
          range_of_load_[static_cast<std::size_t>(load)])
        for (std::size_t c = 0; c < part.size(); ++c) part[c].push_back(times.us[c][a]);
    return part;
  }

  static std::set<std::string> named(const AnchorTimes& times, const std::vector<bool>& which) {
    std::set<std::string> labels;
    for (std::size_t c = 0; c < which.size(); ++c)
      if (which[c]) labels.insert(times.labels[c]);
    return labels;
  }

  int pairs_of(int load) const { return pairs_of_[static_cast<std::size_t>(load)]; }

  bool measure(const std::string& phase, const std::vector<Work>& work) {
    std::map<std::pair<std::string, int>, int> rounds_of;  // taken before
    std::set<std::pair<std::string, int>> is_done;
    for (const StoredCell& cell : store_.cells_taken()) {
      if (!cell.us.empty()) is_done.emplace(cell.label, cell.load);
      rounds_of[{cell.label, cell.load}] = cell.dropped + static_cast<int>(cell.us.size());
    }
    done_ = static_cast<long long>(is_done.size());
    std::vector<Taking> batch;
    double batch_s = 0;
    bool knows_pace = true;  // of every load in it
    const auto flush = [&] {
      if (!batch.empty()) run_batch(phase, batch);
      batch.clear();
      batch_s = 0;
      knows_pace = true;
    };
    for (std::size_t i = 0; i < work.size(); ++i) {
      const std::pair<std::string, int> key(work[i].label, work[i].load);
      if (!is_done.count(key) && !lost_.count(work[i].label)) {
        Taking taking{work[i]};
        if (const auto before = rounds_of.find(key); before != rounds_of.end())
          taking.rounds = before->second;
        batch.push_back(std::move(taking));
        batch_s += options_.rounds * pace_.sample_s(pairs_of(work[i].load));
        knows_pace = knows_pace && pace_.knows(pairs_of(work[i].load));
      }
      // Whole loads, so that the candidates of a load are interleaved.
      const bool load_ends = i + 1 == work.size() || work[i + 1].load != work[i].load;
      const bool is_full = !batch.empty() && (!knows_pace || batch_s >= options_.batch_s);
      if ((load_ends && is_full) || batch.size() >= kMaxBatch) {
        if (out_of_budget()) return false;
        flush();
      }
    }
    if (!batch.empty() && out_of_budget()) return false;
    flush();
    return true;
  }

  // One commit: rounds, retakes of what came throttled, more rounds where the spread asks for them.
  void run_batch(const std::string& phase, std::vector<Taking>& batch) {
    for (int pause = 0;; ++pause) {
      take(batch, options_.rounds, [](const Taking&) { return true; });
      for (int retake = 0; retake < kRetakes; ++retake)
        take(batch, 1, [this](const Taking& t) { return t.clean() < options_.rounds; });
      if (std::any_of(batch.begin(), batch.end(),
                      [](const Taking& t) { return t.lost || t.clean() > 0; }))
        break;
      if (pause == kPauses) {
        keep(batch);
        throw Error(
            "clock", fmt::format("every sample throttled at {:.0f} MHz", last_mhz_),
            "a GPU that holds its clock and is not shared",
            "let it cool, or end what else runs on it; then run the same command again to go on");
      }
      note(fmt::format("every sample came throttled at {:.0f} MHz: pausing {:.0f} s", last_mhz_,
                       options_.cool_s * (1 << pause)));
      sleep(options_.cool_s * (1 << pause));
    }
    while (take(batch, options_.rounds, [this](const Taking& t) {
      return t.clean() >= options_.rounds && t.clean() < options_.max_rounds &&
             relative_spread(t.clean_us()) > options_.max_spread;
    })) {
    }
    keep(batch);
    tell({phase, done_, std::max(planned_, done_), elapsed(), time_left(), last_mhz_});
    look_for_interrupt();
  }

  // `rounds` more of the cells that `wants` names; whether there were any.
  template <class Wants>
  bool take(std::vector<Taking>& batch, int rounds, const Wants& wants) {
    MeasureRequest request;
    request.rounds = rounds;
    std::vector<Taking*> asked;
    std::unordered_map<std::string, int> label_place;
    std::unordered_map<int, int> load_place;
    for (Taking& taking : batch) {
      if (taking.lost || !wants(taking)) continue;
      const auto [label, new_label] =
          label_place.emplace(taking.work.label, static_cast<int>(request.labels.size()));
      if (new_label) request.labels.push_back(taking.work.label);
      const auto [load, new_load] =
          load_place.emplace(taking.work.load, static_cast<int>(request.loads.size()));
      if (new_load)
        request.loads.push_back(workload_.loads[static_cast<std::size_t>(taking.work.load)]);
      request.cells.push_back({label->second, load->second, taking.rounds});
      asked.push_back(&taking);
    }
    if (asked.empty()) return false;
    const auto start = Clock::now();
    std::map<int, double> samples;  // by the pairs of their load
    for (const Taking* taking : asked) samples[pairs_of(taking->work.load)] += rounds;
    double expected_s = 0;
    for (const auto& [pairs, n] : samples) expected_s += n * pace_.sample_s(pairs);
    const Measurement measured = timer_.measure(request, expected_s);
    if (measured.quarantined.empty()) {
      const double spent = std::chrono::duration<double>(Clock::now() - start).count();
      pace_.learn(samples, spent);
      samples_ += static_cast<double>(asked.size()) * rounds;
      samples_s_ += spent;
      has_pace_ = true;
    }
    for (const Incident& incident : measured.quarantined) {
      store_.set_status(incident.label, ConfigStatus::kQuarantined, incident.reason);
      lost_.insert(incident.label);
      note(fmt::format("quarantined {}: {}", incident.label, incident.reason));
    }
    std::vector<float> mhz;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      Taking& taking = *asked[i];
      taking.lost = lost_.count(taking.work.label) > 0;
      if (taking.lost) continue;
      taking.rounds += rounds;
      taking.samples.insert(taking.samples.end(), measured.samples[i].begin(),
                            measured.samples[i].end());
      for (const Sample& s : measured.samples[i])
        if (s.sm_mhz > 0) mhz.push_back(s.sm_mhz);
    }
    if (!mhz.empty()) last_mhz_ = median(mhz);
    return true;
  }

  void keep(const std::vector<Taking>& batch) {
    std::vector<CellSamples> cells;
    for (const Taking& taking : batch) {
      if (taking.lost) continue;
      cells.push_back({taking.work.label, taking.work.load, taking.samples});
      done_ += taking.clean() > 0;
    }
    store_.append(cells);
  }

  void sleep(double seconds) const {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (Clock::now() < end) {
      look_for_interrupt();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  double time_left() const {
    const double sample_s = has_pace_ ? samples_s_ / samples_ : kFirstGuess;
    const double all =
        static_cast<double>(std::max(planned_ - done_, 0LL)) * options_.rounds * sample_s;
    return options_.minutes > 0 ? std::clamp(options_.minutes * 60 - elapsed(), 0.0, all) : all;
  }

  void tell(const CampaignProgress& progress) const {
    if (events_.progress) events_.progress(progress);
  }

  void finish_plan(bool is_whole) {
    report_.end = is_whole ? CampaignReport::End::kFinished : CampaignReport::End::kBudget;
    // Before the end, so that a kill between the two only measures again.
    if (!is_whole) {
      const double before = minutes_of_note(store_.note(kMinutesNote).value_or(""));
      store_.set_note(kMinutesNote, fmt::format("{:g}", before + options_.minutes));
    }
    store_.set_note("end", end_name(report_.end));
  }

  void summarise() {
    reload_configs();
    report_.configs = static_cast<int>(configs_.size());
    for (const TimedConfig& config : configs_) {
      report_.ok += config.status == ConfigStatus::kOk;
      report_.refused += config.status == ConfigStatus::kRefused;
      report_.wrong += config.status == ConfigStatus::kWrong;
      report_.quarantined += config.status == ConfigStatus::kQuarantined;
    }
    report_.loads = static_cast<int>(workload_.loads.size());
    report_.passes = static_cast<int>(workload_.passes.size());
    report_.cells = store_.cells();
    report_.planned = std::max(planned_, report_.cells);
    report_.dropped = store_.dropped();
    report_.deaths = timer_.deaths();
    report_.sm_mhz = store_.median_mhz();
    report_.seconds = started_ == Clock::time_point{} ? 0 : elapsed();
    const std::vector<StoredCell> cells = store_.cells_taken();
    std::vector<float> spreads;
    for (const StoredCell& cell : cells)
      if (cell.us.size() > 1) spreads.push_back(static_cast<float>(relative_spread(cell.us)));
    report_.median_spread = spreads.empty() ? 0 : median(spreads);
    if (report_.contenders > 0) count_wins(cells);
  }

  // The random share is a sample of what the contenders' rule left out: it says what that may have
  // cost.
  void count_wins(const std::vector<StoredCell>& cells) {
    const std::vector<int> anchors = choose_anchors(workload_, options_.plan);
    const std::set<int> is_anchor(anchors.begin(), anchors.end());
    const AnchorTimes times = times_on(anchors);
    const std::set<std::string> contenders =
        named(times, choose_contenders(times.us, options_.plan.margin));
    std::map<int, float> best;
    for (const StoredCell& cell : cells)
      if (contenders.count(cell.label) && !cell.us.empty()) {
        const auto [it, is_new] = best.emplace(cell.load, median(cell.us));
        if (!is_new) it->second = std::min(it->second, median(cell.us));
      }
    for (const StoredCell& cell : cells) {
      if (contenders.count(cell.label) || is_anchor.count(cell.load) || cell.us.empty() ||
          !best.count(cell.load))
        continue;
      ++report_.drawn;
      const double win = best[cell.load] / median(cell.us) - 1;
      report_.drawn_wins += win > 0;
      report_.worst_win = std::max(report_.worst_win, win);
    }
  }

  MeasurementStore& store_;
  Workload workload_;
  const CampaignOptions& options_;
  const CampaignEvents& events_;
  const std::atomic<bool>* interrupted_;
  IsolatedTimer timer_;
  std::vector<TimedConfig> configs_;
  std::set<std::string> gone_;  // in the file, not in this program
  std::set<std::string> lost_;  // quarantined in this run
  CampaignReport report_;
  Clock::time_point started_{};
  std::vector<int> pairs_of_;                      // [load]
  std::vector<int> range_of_load_;                 // [load], of pass sizes
  std::set<std::pair<std::string, int>> put_off_;  // cells of anchors
  Pace pace_;
  double samples_ = 0, samples_s_ = 0;  // taken in this run, and how long it took
  bool has_pace_ = false;
  float last_mhz_ = 0;
  long long planned_ = 0, done_ = 0;
};

}  // namespace

CampaignReport run_campaign(MeasurementStore& store, Workload workload, const Spawn& spawn,
                            const CampaignOptions& options, const CampaignEvents& events,
                            const std::atomic<bool>* interrupted) {
  const auto between = [](const char* field, double value, double least, double most) {
    if (!(value >= least && value <= most))
      throw Error(field, fmt::format("{:g}", value), fmt::format("{:g} to {:g}", least, most), "");
  };
  between("--minutes", options.minutes, 0, 1e6);
  between("--rounds", options.rounds, 1, 100);
  between("--max-rounds", options.max_rounds, options.rounds, 1000);
  between("--anchors", options.plan.anchors, 2, 10'000);
  between("--margin", options.plan.margin, 0, 10);
  between("--random-share", options.plan.random_share, 0, 1);
  return Campaign(store, std::move(workload), spawn, options, events, interrupted).run();
}

std::string end_name(CampaignReport::End end) {
  return end == CampaignReport::End::kFinished ? "finished"
         : end == CampaignReport::End::kBudget ? "budget"
                                               : "interrupted";
}

}  // namespace ramp
