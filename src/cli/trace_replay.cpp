// SPDX-License-Identifier: Apache-2.0
// `ramp trace replay`: requests to forward passes, as a server would batch them.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "base/whole_file.hpp"
#include "cli/progress.hpp"
#include "cli/table.hpp"
#include "cli/trace_verbs.hpp"
#include "problem/replay.hpp"
#include "problem/trace_file.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct ReplayFlags {
  std::string trace, domain, prompts = "auto", output, arrivals;
  ReplayOptions options;
  int passes = 200, warm_up = 0, show = 12;
  bool as_json = false;
};

std::string loop_text(const ReplayOptions& o, const std::string& arrivals) {
  const std::string pass = fmt::format(
      "a pass takes {} ms{}, {} tokens at most", o.pass_ms,
      o.token_us > 0 ? fmt::format(" and {} us a token", o.token_us) : "", o.token_budget);
  if (o.arrivals)
    return fmt::format("open loop: {} at {}x, {:.2f} requests a second; {}", arrivals, o.speed,
                       o.arrivals->rate() * o.speed, pass);
  if (o.rate > 0) return fmt::format("open loop: Poisson, {} requests a second; {}", o.rate, pass);
  return fmt::format("closed loop: {} requests, {} tokens at most", o.concurrency, o.token_budget);
}

void run_replay(const ReplayFlags& flags) {
  const ReadTrace read = read_trace(flags.trace);
  if (!read.health.whole()) fmt::print(stderr, "note: {}\n", read.health.text());
  const RoutingTrace& trace = read.trace;
  if (flags.passes < 1 || flags.passes > 10'000'000)
    throw Error("--passes", fmt::format("{}", flags.passes), "1 .. 10,000,000", "for example 200");
  std::vector<int> requests;
  for (std::size_t r = 0; r < trace.requests.size(); ++r)
    if (flags.domain.empty() || trace.domains[trace.requests[r].domain] == flags.domain)
      requests.push_back(static_cast<int>(r));
  if (requests.empty() && !trace.requests.empty()) {
    std::string known;
    for (const std::string& d : trace.domains) known += (known.empty() ? "" : ", ") + d;
    throw Error("--domain", flags.domain, known, "pick one of these");
  }
  ReplayOptions options = flags.options;
  std::optional<ArrivalTrace> arrivals;
  if (!flags.arrivals.empty()) options.arrivals = &arrivals.emplace(read_arrivals(flags.arrivals));
  Replay replay(trace, requests, options);
  replay.skip(flags.warm_up);
  Progress progress("replaying");
  std::vector<ForwardPass> passes;
  for (int p = 0; p < flags.passes; ++p) {
    passes.push_back(replay.next());
    progress.update(p + 1, flags.passes);
  }
  std::vector<double> sizes;
  std::int64_t prefill = 0, tokens = 0;
  int large = 0, waiting = 0;
  for (const ForwardPass& pass : passes) {
    sizes.push_back(static_cast<double>(pass.tokens.size()));
    tokens += static_cast<std::int64_t>(pass.tokens.size());
    prefill += pass.prefill_tokens;
    large += pass.tokens.size() >= 128;
    waiting = std::max(waiting, pass.waiting);
  }
  if (!flags.output.empty()) {
    std::string lines;
    for (const ForwardPass& pass : passes)
      lines += json({{"tokens", pass.tokens},
                     {"prefill_tokens", pass.prefill_tokens},
                     {"start_s", pass.start_s}})
                   .dump() +
               "\n";
    write_whole_file(flags.output, lines);
  }
  const double share = static_cast<double>(large) / static_cast<double>(passes.size());
  const double seconds = passes.back().start_s - passes.front().start_s;
  const std::string loop = loop_text(options, arrivals ? arrivals->name : "");
  if (flags.as_json) {
    json out = {{"loop", loop},
                {"routing", routing_label(trace.info)},
                {"seconds", seconds},
                {"most_waiting", waiting},
                {"passes", passes.size()},
                {"tokens", tokens},
                {"prefill_tokens", prefill},
                {"median_tokens", median(sizes)},
                {"max_tokens", *std::max_element(sizes.begin(), sizes.end())},
                {"share_128", share},
                {"sizes", sizes}};
    fmt::print("{}\n", dump(out));
    return;
  }
  fmt::print("{}\n{}\n", loop, routing_label(trace.info));
  Table table({"pass", "s", "tokens", "decoding", "prefill", "waiting"});
  for (int p = 0; p < std::min<int>(flags.show, static_cast<int>(passes.size())); ++p)
    table.add({std::to_string(p), fmt::format("{:.3f}", passes[p].start_s),
               std::to_string(passes[p].tokens.size()),
               std::to_string(passes[p].tokens.size() - passes[p].prefill_tokens),
               std::to_string(passes[p].prefill_tokens), std::to_string(passes[p].waiting)});
  fmt::print("{}", table.text());
  if (static_cast<int>(passes.size()) > flags.show)
    fmt::print("  ... {} more\n", passes.size() - flags.show);
  fmt::print(
      "{} passes, {} tokens, {} of them prefill; median {:.0f} tokens, {:.1f} % of passes with 128 "
      "or more\n",
      passes.size(), tokens, prefill, median(sizes), 100 * share);
  if (options.is_open_loop())
    fmt::print("{:.1f} s of the server's time, at most {} requests waiting\n", seconds, waiting);
  if (!flags.output.empty()) fmt::print("token indexes of every pass: {}\n", flags.output);
}

}  // namespace

void add_trace_replay(CLI::App& trace) {
  CLI::App* verb = trace.add_subcommand(
      "replay", "Requests to forward passes: continuous batching, closed or open loop");
  auto flags = std::make_shared<ReplayFlags>();
  ReplayOptions& o = flags->options;
  verb->add_option("trace", flags->trace, "a .rtrace with requests")->required();
  verb->add_option("--concurrency", o.concurrency, "closed loop: requests active at once")
      ->capture_default_str();
  verb->add_option("--rate", o.rate, "open loop instead: requests a second, at random (Poisson)");
  verb->add_option("--arrivals", flags->arrivals,
                   "open loop instead: an arrival trace (see ramp trace arrivals)");
  verb->add_option("--speed", o.speed, "the arrival trace's clock runs so much faster")
      ->capture_default_str();
  verb->add_flag("--keep-lengths", o.keep_lengths,
                 "arrivals give the times, requests keep their recorded lengths");
  verb->add_option("--pass-ms", o.pass_ms, "open loop: time of a pass")->capture_default_str();
  verb->add_option("--token-us", o.token_us, "open loop: time that each of its tokens adds")
      ->capture_default_str();
  verb->add_option("--max-active", o.max_active,
                   "open loop: requests that run at once, as vLLM's max_num_seqs; 0: all")
      ->capture_default_str();
  verb->add_option("--budget", o.token_budget, "tokens a pass may hold")->capture_default_str();
  verb->add_option("--passes", flags->passes, "passes to replay")->capture_default_str();
  verb->add_option("--skip", flags->warm_up, "passes before the first one shown")
      ->capture_default_str();
  verb->add_option("--domain", flags->domain, "requests of this domain only");
  verb->add_option("--prompts", flags->prompts,
                   "prefill them in chunks, or stream every token as if decoded")
      ->check(CLI::IsMember({"auto", "prefill", "stream"}))
      ->capture_default_str();
  verb->add_option("--show", flags->show, "rows of the table")->capture_default_str();
  verb->add_option("--seed", o.seed, "another seed, another order")->capture_default_str();
  verb->add_option("-o,--output", flags->output, "JSON lines: the token indexes of each pass");
  verb->add_flag("--json", flags->as_json, "for machines");
  verb->footer(
      "Examples:\n"
      "  ramp trace replay data/traces/dsv2lite_esft.rtrace --concurrency 160 --domain law\n"
      "  ramp trace replay data/traces/gptoss20b_decode.rtrace --rate 16 --pass-ms 20\n"
      "  ramp trace replay data/traces/gptoss20b_decode.rtrace --pass-ms 20 \\\n"
      "    --arrivals data/arrivals/azure2023_conv.csv.gz --speed 2");
  verb->callback([flags] {
    flags->options.prompts = flags->prompts == "prefill"  ? Prompts::kPrefill
                             : flags->prompts == "stream" ? Prompts::kStream
                                                          : Prompts::kAuto;
    run_replay(*flags);
  });
}

}  // namespace ramp::cli
