// SPDX-License-Identifier: Apache-2.0
// `ramp worker`: the process in which kernels are compiled, checked and timed.  `ramp profile`
// starts it and talks to it (lab/worker_protocol.hpp); nobody calls it by hand, so --help doesn't
// list it.
#include "lab/worker.hpp"

#include <charconv>
#include <memory>

#include "base/error.hpp"
#include "cli/device_timer.hpp"
#include "cli/verbs.hpp"
#include "lab/simulated_timer.hpp"

namespace ramp::cli {
namespace {

// Tells the campaign why there is no timer, as the answer to its first question.
class AbsentTimer : public KernelTimer {
 public:
  explicit AbsentTimer(std::string why) : why_(std::move(why)) {}
  Provenance environment() override { throw Error(why_); }
  std::vector<TimedConfig> space(const LocalShape&) override { throw Error(why_); }
  std::vector<TimedConfig> prepare(const std::vector<std::string>&,
                                   const PrepareProgress&) override {
    throw Error(why_);
  }
  std::string verify(const std::string&) override { throw Error(why_); }
  std::vector<std::vector<Sample>> measure(const MeasureRequest&) override { throw Error(why_); }

 private:
  std::string why_;
};

}  // namespace

TimerSpec parse_timer(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  TimerSpec spec;
  if (kind == "simulated") {
    parse_simulation(rest);
    spec.is_simulated = true;
    spec.simulation = rest;
    return spec;
  }
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), spec.device);
  const bool is_number =
      colon == std::string::npos ||
      (error == std::errc() && end == rest.data() + rest.size() && spec.device >= 0);
  if (kind != "gpu" || !is_number)
    throw Error("--timer", text, "gpu or gpu:N", "`ramp doctor` lists the GPUs");
  return spec;
}

std::unique_ptr<KernelTimer> open_timer(const std::string& text) {
  const TimerSpec spec = parse_timer(text);
  return spec.is_simulated ? make_simulated_timer(parse_simulation(spec.simulation))
                           : open_device_timer(spec.device);
}

void add_worker(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("worker", "Times kernels for a campaign");
  verb->group("");
  auto timer = std::make_shared<std::string>("gpu");
  verb->add_option("--timer", *timer, "what to time on");
  verb->callback([timer] {
    const int channel = become_worker();
    std::unique_ptr<KernelTimer> opened;
    try {
      opened = open_timer(*timer);
    } catch (const std::exception& e) {
      opened = std::make_unique<AbsentTimer>(e.what());
    }
    serve_worker(*opened, channel);
  });
}

}  // namespace ramp::cli
