// SPDX-License-Identifier: Apache-2.0
#include "lab/simulated_timer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include "base/error.hpp"
#include "choice/features.h"

namespace ramp {
namespace {

constexpr int kSms = 132;
constexpr int kSharedBytes = 227 * 1024;

std::uint64_t mix(std::uint64_t x) {  // splitmix64's finaliser
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t hash_text(const std::string& text) {
  std::uint64_t h = 0x9e3779b97f4a7c15ULL;
  for (unsigned char c : text) h = mix(h + c);
  return h;
}

double unit(std::uint64_t h) { return static_cast<double>(h >> 11) * 0x1.0p-53; }

struct SimulatedConfig {
  int rows, cols, stages;
  bool is_dynamic;
};

// Not Eq. 3: the floor of the weight stream, the drag of dynamic claims and the shared waves make
// an error that a fit has to live with.
double kernel_us(const SimulatedConfig& c, const Grid& grid, const LocalShape& shape,
                 const std::vector<int>& load) {
  const Features f = features(grid, load.data(), static_cast<int>(load.size()));
  if (f.active == 0) return 1.0;
  const double tile_bytes = 3.0 * shape.hidden * shape.intermediate / grid.phase[0].col_tiles;
  const double stream_rate = 34'700.0 * (c.stages >= 4 ? 1.0 : 0.93);  // bytes a us and SM
  const double math_rate = 1.43e7 * std::min(1.0, 0.22 * c.rows / 8.0) *
                           (c.cols >= 512 ? 1.04 : 1.0);  // FLOP a us and SM
  const double tile_us =
      std::max(tile_bytes / stream_rate, 2 * tile_bytes * c.rows / math_rate) + 0.15;
  const double waves = c.is_dynamic ? 0.35 * f.waves + 0.65 * f.tiles / kSms : f.waves;
  const double floor =
      1.3 + 1e-6 * f.active * expert_bytes(shape.hidden, shape.intermediate) / 4.58;
  const double reduce = 6e-4 * c.rows * f.tiles * shape.hidden / 2048.0;
  return std::max(floor, 1.6 + waves * tile_us) + 0.02 * f.active + reduce / kSms * 8 +
         (c.is_dynamic ? 0.004 * f.tiles + 0.3 : 0.0);
}

class SimulatedTimer : public KernelTimer {
 public:
  explicit SimulatedTimer(const SimulationOptions& options) : options_(options) {}

  Provenance environment() override {
    Provenance p;
    p.gpu = kSimulatedGpu;
    p.driver = "none";
    p.toolkit = "none";
    p.sources = fmt::format("simulation seed {} noise {}", options_.seed, options_.noise);
    p.how = "an analytic formula with seeded noise: not a measurement";
    return p;
  }

  std::vector<TimedConfig> space(const LocalShape& shape) override {
    shape_ = shape;
    std::vector<TimedConfig> all;
    for (int rows : {8, 16, 24, 32, 48, 64})
      for (int cols : {256, 512})
        for (int stages : {3, 4, 6})
          for (bool is_dynamic : {false, true})
            all.push_back(describe({rows, cols, stages, is_dynamic}));
    return all;
  }

  std::vector<TimedConfig> prepare(const std::vector<std::string>& labels,
                                   const PrepareProgress& progress) override {
    std::vector<TimedConfig> prepared;
    for (const std::string& label : labels) {
      fault_at(label, "prepare");
      TimedConfig config = known(label);
      config.candidate.registers = 168;
      if (contains(options_.faults.refuse, label)) {
        config.status = ConfigStatus::kRefused;
        config.reason = "simulated: 96 bytes of spills";
      }
      prepared.push_back(config);
      prepared_.insert(label);
      if (progress) progress(static_cast<int>(prepared.size()), static_cast<int>(labels.size()));
    }
    return prepared;
  }

  std::string verify(const std::string& label) override {
    require_prepared(label);
    fault_at(label, "verify");
    return contains(options_.faults.wrong, label)
               ? "simulated: relative error 0.31 where 0.01 is allowed"
               : "";
  }

  std::vector<std::vector<Sample>> measure(const MeasureRequest& request) override {
    for (const std::string& label : request.labels) {
      require_prepared(label);
      fault_at(label, "measure");
    }
    crash_once();
    std::vector<std::vector<Sample>> samples(request.cells.size());
    for (int round = 0; round < request.rounds; ++round)
      for (std::size_t i = 0; i < request.cells.size(); ++i)
        samples[i].push_back(
            sample(request.labels[static_cast<std::size_t>(request.cells[i].config)],
                   request.loads[static_cast<std::size_t>(request.cells[i].load)],
                   request.cells[i].taken + round));
    double real_us = options_.pace_us * static_cast<double>(request.rounds) *
                     static_cast<double>(request.cells.size());
    for (const std::vector<Sample>& of_cell : samples)
      for (const Sample& s : of_cell) real_us += options_.slow * s.us;
    if (real_us > 0)
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(real_us));
    return samples;
  }

 private:
  static bool contains(const std::vector<std::string>& list, const std::string& text) {
    return std::find(list.begin(), list.end(), text) != list.end();
  }

  TimedConfig describe(const SimulatedConfig& c) {
    TimedConfig config;
    config.candidate.label = fmt::format("sim-r{}-c{}-s{}-{}", c.rows, c.cols, c.stages,
                                         c.is_dynamic ? "dynamic" : "static");
    config.candidate.knobs = fmt::format("{{\"rows\":{},\"cols\":{},\"stages\":{},\"dynamic\":{}}}",
                                         c.rows, c.cols, c.stages, c.is_dynamic);
    config.candidate.grid.phase[0] = {c.rows, ceil_div(2 * shape_.intermediate, c.cols), kSms};
    config.candidate.occupancy = fmt::format("1x{}", c.cols);
    config.candidate.smem_bytes = c.stages * 128 * (c.cols / 2 + c.rows);
    if (config.candidate.smem_bytes > kSharedBytes) {
      config.status = ConfigStatus::kRefused;
      config.reason =
          fmt::format("shared memory: {} bytes of {}", config.candidate.smem_bytes, kSharedBytes);
    }
    knobs_[config.candidate.label] = c;
    configs_[config.candidate.label] = config;
    return config;
  }

  const TimedConfig& known(const std::string& label) const {
    const auto it = configs_.find(label);
    if (it == configs_.end())
      throw Error("label", label, "one of the space", "open the shape first");
    return it->second;
  }

  void require_prepared(const std::string& label) const {
    if (!prepared_.count(label))
      throw Error("label", label, "a prepared configuration", "prepare it first");
  }

  void fault_at(const std::string& label, const std::string& where) const {
    const auto named = [&](const std::vector<std::string>& list) {
      return contains(list, label + "@" + where) || (where == "measure" && contains(list, label));
    };
    if (named(options_.faults.crash)) {
      fmt::print(stderr, "simulated: an illegal memory access in {}\n", label);
      std::abort();
    }
    if (named(options_.faults.hang))
      while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }

  void crash_once() const {
    const std::string& marker = options_.faults.crash_once;
    if (marker.empty() || ::access(marker.c_str(), F_OK) == 0) return;
    ::close(::open(marker.c_str(), O_CREAT | O_WRONLY, 0644));
    std::abort();
  }

  // A function of its arguments alone, so that a campaign that was killed and resumed sees the same
  // times.
  Sample sample(const std::string& label, const std::vector<int>& load, int round) const {
    std::uint64_t h = mix(options_.seed + 0x9e3779b97f4a7c15ULL * hash_text(label));
    const double character =
        1 + 0.02 * (unit(mix(h)) - 0.5);  // what no model of the counts can know
    for (int n : load) h = mix(h + static_cast<std::uint64_t>(n) + 0x632be59bd9b4e019ULL);
    h = mix(h + static_cast<std::uint64_t>(round));
    const double u = std::max(unit(mix(h + 1)), 1e-12), v = unit(mix(h + 2));
    const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979 * v);
    double us = kernel_us(knobs_.at(label), known(label).candidate.grid, shape_, load) * character *
                std::exp(options_.noise * normal);
    Sample taken{0, 1980, false};
    if (unit(mix(h + 3)) < options_.faults.throttle) {
      us *= 1.6;
      taken.sm_mhz = 1240;
      taken.throttled = true;
    }
    taken.us = static_cast<float>(us);
    return taken;
  }

  SimulationOptions options_;
  LocalShape shape_;
  std::map<std::string, SimulatedConfig> knobs_;
  std::map<std::string, TimedConfig> configs_;
  std::set<std::string> prepared_;
};

template <class Number>
Number number_of(const std::string& key, const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    throw Error("simulated:" + key, text, "a number from 0", "");
  return value;
}

}  // namespace

SimulationOptions parse_simulation(const std::string& text) {
  SimulationOptions options;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = item.find('=');
    const std::string key = item.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
    if (key == "seed")
      options.seed = number_of<std::uint64_t>(key, value);
    else if (key == "noise")
      options.noise = number_of<double>(key, value);
    else if (key == "pace")
      options.pace_us = number_of<double>(key, value);
    else if (key == "slow")
      options.slow = number_of<double>(key, value);
    else if (key == "throttle")
      options.faults.throttle = number_of<double>(key, value);
    else if (key == "hang")
      options.faults.hang.push_back(value);
    else if (key == "crash")
      options.faults.crash.push_back(value);
    else if (key == "wrong")
      options.faults.wrong.push_back(value);
    else if (key == "refuse")
      options.faults.refuse.push_back(value);
    else if (key == "crash-once")
      options.faults.crash_once = value;
    else
      throw Error("simulated:" + key, value.empty() ? "nothing" : value,
                  "seed, noise, pace, slow, throttle, hang, crash, wrong, refuse or crash-once",
                  "");
  }
  return options;
}

std::unique_ptr<KernelTimer> make_simulated_timer(const SimulationOptions& options) {
  return std::make_unique<SimulatedTimer>(options);
}

}  // namespace ramp
