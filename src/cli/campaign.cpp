// SPDX-License-Identifier: Apache-2.0
#include "cli/campaign.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "cli/device_timer.hpp"
#include "cli/progress.hpp"
#include "problem/sample.hpp"
#include "problem/trace_file.hpp"
#include "problem/trace_generate.hpp"

namespace ramp::cli {
namespace {

std::atomic<bool> g_interrupted{false};  // the one thing that a signal handler may touch

void note_signal(int) { g_interrupted = true; }

// While a campaign runs, Ctrl-C and a polite kill end it in order.
class SignalsNoted {
 public:
  SignalsNoted() {
    g_interrupted = false;
    struct sigaction action {};
    action.sa_handler = note_signal;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < std::size(kSignals); ++i)
      ::sigaction(kSignals[i], &action, &before_[i]);
  }
  ~SignalsNoted() {
    for (std::size_t i = 0; i < std::size(kSignals); ++i)
      ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  SignalsNoted(const SignalsNoted&) = delete;
  SignalsNoted& operator=(const SignalsNoted&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[3]{};
};

// As a shell takes it.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// This very command, so that it can be shown to be run again.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string words{std::istreambuf_iterator<char>(file), {}};
  std::string text;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find('\0', at), words.size());
    text += (text.empty() ? "" : " ") + shell_word(words.substr(at, end - at));
    at = end + 1;
  }
  return text;
}

GenerateOptions generate_options(const std::string& text, const Model& model) {
  GenerateOptions options;
  options.model = model;
  options.calibration = find_calibration(model.name);
  options.layers = 8;  // enough to differ, and a trace of all would be gigabytes
  options.passes = 10;
  options.repeats = 1;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = item.find('=');
    const std::string key = item.substr(0, equals),
                      value = equals == std::string::npos ? "" : item.substr(equals + 1);
    unsigned long long number = 0;
    const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || stop != value.data() + value.size() ||
        (key != "seed" && number > 10'000))
      throw Error("--generate " + key, "'" + value + "'",
                  "a whole number, as in seed=1,passes=10,layers=8", "");
    if (key == "seed")
      options.seed = number;
    else if (key == "passes")
      options.passes = static_cast<int>(number);
    else if (key == "layers")
      options.layers = static_cast<int>(number);
    else if (key == "repeats")
      options.repeats = static_cast<int>(number);
    else
      throw Error("--generate", key, "seed, passes, layers or repeats", "");
  }
  return options;
}

// The same generated network, asked by other requests in open loops.
RoutingTrace open_loops_of(GenerateOptions options, const SampleOptions& sample) {
  options.concurrency.clear();
  options.rates = sample.test_rates;
  options.arrivals = sample.test_arrivals;
  options.speed = sample.speed;
  options.pass_ms = sample.pass_ms;
  options.token_us = sample.token_us;
  options.max_active = sample.max_active;
  options.burst_share = 0;
  options.stride = 16;  // consecutive passes hold the same requests
  return generate_trace(options);
}

RoutingTrace routing_of(const CampaignFlags& flags, const Model* model) {
  if (!flags.trace.empty()) {
    ReadTrace read = read_trace(flags.trace);
    if (!read.health.whole()) fmt::print(stderr, "note: {}: {}\n", flags.trace, read.health.text());
    return std::move(read.trace);
  }
  if (!model)
    throw Error("--model", "nothing", "the model to generate routing for",
                "add --model NAME (`ramp catalog` lists them)");
  fmt::print(stderr, "generating routing calibrated to the paper's imbalance ({}): {}\n",
             flags.generate, calibration_note("generated: " + model->name + " "));
  return generate_trace(generate_options(flags.generate, *model));
}

Role role_of(Traffic role) {
  return role == Traffic::kTrain  ? Role::kTrain
         : role == Traffic::kTest ? Role::kTest
                                  : Role::kUniform;
}

// Loads of narrower GPUs end in zeros.  Loads with equal sorted counts take equally long, so they
// are one: under EP8 about a third of small passes' loads.
Workload workload_of(const SampledTraffic& traffic, const LocalShape& shape) {
  Workload workload;
  workload.shape = shape;
  for (const SampledPass& sampled : traffic.passes)
    for (const ExpertLoad& load : sampled.counts)  // replicas make GPUs hold more
      workload.shape.experts = std::max(workload.shape.experts, static_cast<int>(load.size()));
  workload.gpus = traffic.gpus;
  workload.provenance.routing = traffic.routing;
  std::map<std::vector<int>, int> place;
  for (const SampledPass& sampled : traffic.passes) {
    MeasuredPass pass{.tokens = sampled.tokens,
                      .layer = sampled.layer,
                      .domain = sampled.domain,
                      .role = role_of(sampled.role)};
    for (ExpertLoad load : sampled.counts) {
      load.resize(static_cast<std::size_t>(workload.shape.experts), 0);
      std::sort(load.rbegin(), load.rend());
      if (load.front() == 0) {
        pass.load_of_gpu.push_back(-1);
        continue;
      }
      const auto [it, is_new] = place.emplace(load, static_cast<int>(workload.loads.size()));
      if (is_new) workload.loads.push_back(load);
      pass.load_of_gpu.push_back(it->second);
    }
    workload.passes.push_back(std::move(pass));
  }
  return workload;
}

void check_runs(const Model& model) {
  if (!model.refusal.empty())
    throw Error("--model", fmt::format("{} ({})", model.name, model.refusal),
                "a model whose experts the FP8 layer runs",
                "its routing still works with `ramp trace` and `ramp loads`");
}

struct Job {
  Workload workload;
  std::string path;
};

Job job_of(const CampaignFlags& flags) {
  if (flags.trace.empty() == flags.generate.empty())
    throw Error("--trace, --generate", flags.trace.empty() ? "neither" : "both", "one of them",
                "give a recorded trace, or --generate seed=1 where the model has none");
  std::optional<Model> model;
  if (flags.model.given()) model = flags.model.model();
  if (model) check_runs(*model);
  RoutingTrace trace = routing_of(flags, model ? &*model : nullptr);
  if (!model) {
    const Model* named = find_model_or_null(trace.info.model);
    if (!named)
      throw Error("--model", "nothing", "the trace's model, whose d and h are needed",
                  "add --model NAME or --config FILE");
    model = *named;
    check_runs(*model);
  }
  Layout layout = parse_layout(flags.layout);
  SampleOptions sample;
  sample.train_passes = flags.train;
  sample.test_passes = flags.test;
  sample.uniform_draws = flags.uniform;
  sample.held_out_domain = flags.held_out;
  sample.seed = flags.options.plan.seed;
  if (!flags.rows.empty()) sample.layers = parse_numbers("--rows", flags.rows, 4096);
  layout = flags.placement.place(std::move(layout), trace, sample);
  TestTrafficOptions test = flags.test_traffic;
  test.apply(sample);
  std::optional<RoutingTrace> open_loops;
  if (flags.trace.empty() && !sample.test_trace &&
      (!sample.test_rates.empty() || sample.test_arrivals)) {
    open_loops = open_loops_of(generate_options(flags.generate, *model), sample);
    sample.test_trace = &*open_loops;
    sample.test_rates.clear();
    sample.test_arrivals = nullptr;
  }
  const SampledTraffic traffic = sample_traffic(trace, model->shape, layout, sample);
  Job job{workload_of(traffic, widest_shape(model->shape, layout)), flags.output};
  // Tables that rest on the file must be able to say what it was scored on.
  if (const std::string loops = test.label(); !loops.empty())
    job.workload.provenance.routing += "; scored on " + loops;
  job.workload.provenance.model = model->name;
  job.workload.provenance.layout = layout.name();
  if (job.path.empty()) job.path = fmt::format("{}-{}.rmeas", model->name, layout.name());
  return job;
}

// Compiling, checking and measuring each have their bar.
class CampaignDisplay {
 public:
  explicit CampaignDisplay(const CampaignPlace& place) : place_(place) {}
  CampaignEvents events() {
    return {[this](const CampaignProgress& p) { show(p); },
            [this](const std::string& text) { note(text); }};
  }

 private:
  void show(const CampaignProgress& p) {
    const bool is_measuring = p.phase != "compiling" && p.phase != "checking";
    const std::string kind = is_measuring ? "measuring" : p.phase;
    if (kind != kind_) {
      bar_ = std::make_unique<Progress>(place_.title.empty() ? kind : place_.title + ": " + kind);
      kind_ = kind;
    }
    // Measuring ends with the work or the budget, whichever is first: time says how far it is,
    // cells don't.
    if (is_measuring)
      bar_->update(p.elapsed_s, p.elapsed_s + p.left_s);
    else
      bar_->update(static_cast<double>(p.done), static_cast<double>(p.planned));
  }
  void note(const std::string& text) {
    fmt::print(stderr, "{}{}\n", ::isatty(STDERR_FILENO) ? "\r\033[K" : "", text);
  }

  const CampaignPlace& place_;
  std::string kind_;
  std::unique_ptr<Progress> bar_;
};

}  // namespace

void add_campaign_flags(CLI::App& app, CampaignFlags& flags) {
  add_model_options(app, flags.model);
  app.add_option("--layout", flags.layout, "tpN or epN")->capture_default_str();
  add_placement_options(app, flags.placement);
  add_test_traffic_options(app, flags.test_traffic);
  app.add_option("--trace", flags.trace, "a .rtrace of recorded routing");
  app.add_option("--generate", flags.generate,
                 "instead: routing calibrated to the paper, as seed=1,passes=10,layers=8");
  app.add_option_function<int>(
         "--passes", [&flags](const int& n) { flags.train = n, flags.test = (n + 1) / 2; },
         "training passes, and half as many test passes")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--train", flags.train, "passes to fit on")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--test", flags.test, "passes to score on, of other requests")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  app.add_option("--uniform", flags.uniform, "uniform draws at each of vLLM's 18 batch sizes")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("--held-out", flags.held_out, "score on this domain and nothing else");
  app.add_option("--rows", flags.rows, "rows of the trace's layers, e.g. 0,5,10; default all");
  CampaignOptions& o = flags.options;
  app.add_option("--minutes", o.minutes,
                 "budget of measuring, compiling and checking apart; 0: all of it")
      ->capture_default_str();
  app.add_option("--seed", o.plan.seed, "of the passes and of the random share")
      ->capture_default_str();
  app.add_option("--anchors", o.plan.anchors, "loads on which every configuration is timed")
      ->capture_default_str();
  app.add_option("--margin", o.plan.margin, "contenders are within this of the best on an anchor")
      ->capture_default_str();
  app.add_option("--random-share", o.plan.random_share, "of the other cells, timed for the fit")
      ->capture_default_str();
  app.add_option("--rounds", o.rounds, "samples of a cell; more where they spread")
      ->capture_default_str();
  app.add_option("--timer", flags.timer, "gpu or gpu:N")->capture_default_str();
}

std::string profile_command(const CampaignFlags& f) {
  const CampaignFlags usual;
  std::string text = "ramp profile";
  const auto add = [&text](const char* flag, const std::string& value) {
    if (!value.empty()) text += fmt::format(" {} {}", flag, shell_word(value));
  };
  const auto add_unusual = [&](const char* flag, const auto& value, const auto& default_value) {
    if (value != default_value) add(flag, fmt::format("{}", value));
  };
  add("--model", f.model.name);
  add("--layout", f.layout);
  add("--placement", f.placement.placement);
  add_unusual("--replicas", f.placement.replicas, usual.placement.replicas);
  add("--trace", f.trace);
  add("--generate", f.generate);
  add("--test-rate", f.test_traffic.rates);
  add("--test-trace", f.test_traffic.trace);
  add_unusual("--pass-ms", f.test_traffic.pass_ms, usual.test_traffic.pass_ms);
  add("--held-out", f.held_out);
  add_unusual("--train", f.train, usual.train);
  add_unusual("--test", f.test, usual.test);
  add_unusual("--uniform", f.uniform, usual.uniform);
  add("--rows", f.rows);
  const PlanOptions &plan = f.options.plan, &usual_plan = usual.options.plan;
  add_unusual("--seed", plan.seed, usual_plan.seed);
  add_unusual("--anchors", plan.anchors, usual_plan.anchors);
  add_unusual("--margin", plan.margin, usual_plan.margin);
  add_unusual("--random-share", plan.random_share, usual_plan.random_share);
  add_unusual("--rounds", f.options.rounds, usual.options.rounds);
  add("--minutes", fmt::format("{:g}", f.options.minutes));
  add_unusual("--timer", f.timer, usual.timer);
  add("-o", f.output);
  return text;
}

CampaignOutcome run_campaign_of(const CampaignFlags& flags, const CampaignPlace& place) {
  parse_timer(flags.timer);
  Job job = job_of(flags);
  CampaignOutcome outcome;
  outcome.path = job.path;
  {
    const SignalsNoted signals;
    CampaignDisplay display(place);
    // In the order of destruction: the bar is cleared before anything else is said.
    MeasurementStore store(job.path);
    outcome.report =
        run_campaign(store, std::move(job.workload), spawn_self({"worker", "--timer", flags.timer}),
                     flags.options, display.events(), &g_interrupted);
    store.close();
  }
  if (outcome.report.end == CampaignReport::End::kInterrupted)
    throw CampaignInterrupted(
        fmt::format("interrupted with {} of {} cells measured; nothing is lost, go on with:\n  {}",
                    outcome.report.cells, outcome.report.planned, command_line()));
  if (outcome.report.end == CampaignReport::End::kBudget)
    fmt::print(stderr, "the budget ended with {} of {} cells measured; {}\n", outcome.report.cells,
               outcome.report.planned,
               place.title.empty() ? "to add the rest:\n  " + command_line()
                                   : "a larger --minutes adds the rest");
  return outcome;
}

nlohmann::json report_json(const CampaignOutcome& outcome) {
  const CampaignReport& r = outcome.report;
  return {
      {"file", outcome.path},
      {"end", end_name(r.end)},
      {"configurations",
       {{"all", r.configs},
        {"ok", r.ok},
        {"refused", r.refused},
        {"wrong", r.wrong},
        {"quarantined", r.quarantined}}},
      {"contenders", r.contenders},
      {"anchors", r.anchors},
      {"loads", r.loads},
      {"passes", r.passes},
      {"cells", r.cells},
      {"planned", r.planned},
      {"throttled_samples", r.dropped},
      {"worker_deaths", r.deaths},
      {"sm_mhz", r.sm_mhz},
      {"median_spread", r.median_spread},
      {"random_share",
       {{"cells", r.drawn}, {"faster_than_contenders", r.drawn_wins}, {"by_at_most", r.worst_win}}},
      {"seconds", r.seconds}};
}

std::string report_text(const CampaignOutcome& outcome) {
  const CampaignReport& r = outcome.report;
  std::string text = fmt::format(
      "{} of {} planned cells in {}: {} loads of {} passes; {} anchors x {} configurations, {} "
      "contenders\n",
      r.cells, r.planned, outcome.path, r.loads, r.passes, r.anchors, r.ok, r.contenders);
  text += fmt::format("configurations: {} right, {} refused, {} wrong, {} quarantined\n", r.ok,
                      r.refused, r.wrong, r.quarantined);
  text += fmt::format(
      "spread of a cell's samples {:.2f} % of its median (median of all); {} throttled samples "
      "dropped{}\n",
      100 * r.median_spread, r.dropped,
      r.sm_mhz > 0 ? fmt::format("; SM clock {:.0f} MHz", r.sm_mhz) : "");
  if (r.drawn > 0)
    text += fmt::format(
        "random share: {} of {} cells of other configurations beat the best contender{}\n",
        r.drawn_wins, r.drawn,
        r.drawn_wins > 0 ? fmt::format(", by {:.1f} % at most", 100 * r.worst_win) : "");
  return text;
}

}  // namespace ramp::cli
