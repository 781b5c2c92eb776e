// SPDX-License-Identifier: Apache-2.0
// `ramp profile`: times configurations on the loads of real passes, within a budget; killed and
// started again it goes on.  `profile export` and `profile import` let a measurements file out and
// in as a plain table.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "base/whole_file.hpp"
#include "choice/times.hpp"
#include "cli/campaign.hpp"
#include "cli/measured_input.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "lab/measurement_table.hpp"
#include "problem/text_file.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct Options {
  CampaignFlags campaign;
  int show = 12;
  bool as_json = false;
};

// On how many loads a configuration is the fastest that was timed, and how far from the fastest it
// is on the others.
struct Standing {
  int candidate = 0, timed = 0, won = 0;
  float median_lag = 0;  // us / fastest - 1
};

std::vector<Standing> standings(const MeasuredSpace& space) {
  const TimeTable us = median_times(space, Half::kBoth);
  std::vector<int> winner(space.loads.size(), -1);
  for (std::size_t l = 0; l < space.loads.size(); ++l)
    for (std::size_t c = 0; c < us.size(); ++c)
      if (is_time(us[c][l]) &&
          (winner[l] < 0 || us[c][l] < us[static_cast<std::size_t>(winner[l])][l]))
        winner[l] = static_cast<int>(c);
  std::vector<Standing> all;
  for (std::size_t c = 0; c < us.size(); ++c) {
    Standing standing{static_cast<int>(c)};
    std::vector<float> lag;
    for (std::size_t l = 0; l < space.loads.size(); ++l) {
      if (!is_time(us[c][l])) continue;
      ++standing.timed;
      standing.won += winner[l] == static_cast<int>(c);
      lag.push_back(us[c][l] / us[static_cast<std::size_t>(winner[l])][l] - 1);
    }
    if (lag.empty()) continue;
    standing.median_lag = median(std::move(lag));
    all.push_back(standing);
  }
  std::stable_sort(all.begin(), all.end(), [](const Standing& a, const Standing& b) {
    return std::pair(-a.won, a.median_lag) < std::pair(-b.won, b.median_lag);
  });
  return all;
}

void run(const Options& options) {
  const CampaignOutcome outcome = run_campaign_of(options.campaign);
  const MeasuredSpace space = read_measured(outcome.path);
  const std::vector<Standing> all = standings(space);
  if (options.as_json) {
    json out = report_json(outcome);
    out["provenance"] = provenance_json(space);
    out["standings"] = json::array();
    for (const Standing& s : all)
      out["standings"].push_back(
          {{"configuration", space.candidates[static_cast<std::size_t>(s.candidate)].label},
           {"loads", s.timed},
           {"fastest_on", s.won},
           {"median_lag", s.median_lag}});
    fmt::print("{}\n", out.dump(2, ' ', false, json::error_handler_t::replace));
    return;
  }
  fmt::print("{}\n{}\n", measured_line(space), report_text(outcome));
  Table table({"<configuration", "loads", "fastest on", "median lag %"});
  const std::size_t shown =
      std::min(all.size(), static_cast<std::size_t>(std::max(options.show, 0)));
  for (std::size_t i = 0; i < shown; ++i)
    table.add({space.candidates[static_cast<std::size_t>(all[i].candidate)].label,
               std::to_string(all[i].timed), std::to_string(all[i].won),
               percent(all[i].median_lag)});
  fmt::print("{}", table.text());
  if (shown < all.size())
    fmt::print("  ... and {} more: --show {}\n", all.size() - shown, all.size());
  fmt::print("\nnext: ramp fit {0}, ramp eval {0}, or ramp tune --from {0}\n", outcome.path);
}

constexpr std::uintmax_t kMaxTableBytes = 256u << 20;

void add_export(CLI::App& profile) {
  CLI::App* verb = profile.add_subcommand("export", "A measurements file as a tab-separated table");
  auto from = std::make_shared<std::string>();
  auto to = std::make_shared<std::string>();
  verb->add_option("measurements", *from, "a .rmeas")->required();
  verb->add_option("-o,--output", *to, "the table; default: stdout");
  verb->footer("Example:\n  ramp profile export olmoe-ep8.rmeas -o olmoe-ep8.tsv");
  verb->callback([from, to] {
    const std::string text = table_text(read_measured(*from));
    if (to->empty())
      fmt::print("{}", text);
    else
      write_whole_file(*to, text);
  });
}

void add_import(CLI::App& profile) {
  CLI::App* verb =
      profile.add_subcommand("import", "A table of times, of any kernel, as a measurements file");
  struct ImportFlags {
    std::string table, like, out;
    bool as_json = false;
  };
  auto flags = std::make_shared<ImportFlags>();
  verb->add_option(
          "table", flags->table,
          "columns config, grid, load, us, and maybe knobs, occupancy, tokens, role, pass, gpu, "
          "domain")
      ->required();
  verb->add_option("--like", flags->like, "a .rmeas whose passes the loads belong to");
  verb->add_option("-o,--output", flags->out, "the .rmeas to write")->required();
  verb->add_flag("--json", flags->as_json, "for machines");
  verb->footer(
      "A line holds times of one configuration on one load, the tokens of each local expert.  A "
      "grid "
      "is\nROWSxCOL_TILESxSLOTS (Eq. 1: rows of a tile, column tiles of a row tile, blocks "
      "resident "
      "at once), a second\nphase after a +; knobs are KEY=VALUE with blanks between; role is "
      "train, "
      "test or uniform.  Lines above the header\nsay top_k, hidden, intermediate, gpus, kernel, "
      "gpu, date, ... as `# key: value`, and what the kernel runs by\nitself as `# shipped TOKENS: "
      "CONFIG`.  docs/foreign-kernels.md has all of it with an example.\n"
      "Examples:\n"
      "  ramp profile import triton.csv -o triton.rmeas\n"
      "  ramp profile import triton.tsv --like olmoe-ep8.rmeas -o triton.rmeas");
  verb->callback([flags] {
    const std::string text = read_whole_file(flags->table, "table", kMaxTableBytes);
    MeasuredSpace like;
    if (!flags->like.empty()) like = read_measured(flags->like);
    const MeasuredSpace space =
        parse_table(text, flags->table, flags->like.empty() ? nullptr : &like);
    save_measurements(space, flags->out);
    const Coverage found = coverage(space);
    if (flags->as_json)
      fmt::print("{}\n", json{{"file", flags->out},
                              {"configurations", space.candidates.size()},
                              {"loads", space.loads.size()},
                              {"cells", found.timed}}
                             .dump(2));
    else
      fmt::print("{}: {} configurations on {} loads, {} cells\n", flags->out,
                 space.candidates.size(), space.loads.size(), found.timed);
  });
}

}  // namespace

void add_profile(CLI::App& app) {
  CLI::App* verb =
      app.add_subcommand("profile", "Time the kernel's configurations on the loads of a trace");
  auto options = std::make_shared<Options>();
  add_campaign_flags(*verb, options->campaign);
  verb->add_option("-o,--output", options->campaign.output,
                   "the .rmeas to write or to go on with; default MODEL-LAYOUT.rmeas");
  verb->add_option("--show", options->show, "configurations in the table")->capture_default_str();
  verb->add_flag("--json", options->as_json, "for machines");
  verb->require_subcommand(0, 1);
  add_export(*verb);
  add_import(*verb);
  verb->footer(
      "Killed, interrupted or out of budget, the same command goes on where it stopped.  Every "
      "configuration is checked\n"
      "against the reference before it is timed; one that hangs or crashes is quarantined with its "
      "reason.\n"
      "Examples:\n"
      "  ramp profile --model dsv2-lite --layout ep8 --trace data/traces/dsv2lite_esft.rtrace -o "
      "dsv2-lite-ep8.rmeas\n"
      "  ramp profile --model olmoe --layout ep8 --generate seed=1 --minutes 0.75");
  verb->callback([verb, options] {
    if (verb->get_subcommands().empty()) run(*options);
  });
}

}  // namespace ramp::cli
