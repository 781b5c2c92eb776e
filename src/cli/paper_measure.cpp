// SPDX-License-Identifier: Apache-2.0
#include "cli/paper_measure.hpp"

#include <fmt/core.h>
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <set>

#include "base/error.hpp"
#include "cli/device_timer.hpp"
#include "cli/measured_input.hpp"
#include "cli/table.hpp"
#include "gpu/driver.hpp"
#include "kernels/device_code.hpp"
#include "lab/campaign_minutes.hpp"
#include "lab/measurements.hpp"
#include "lab/simulated_timer.hpp"

namespace ramp::cli {
namespace {

namespace fs = std::filesystem;

// How far a layout's file is.
struct Standing {
  bool is_begun = false, is_done = false;
  double minutes = 0;  // that are left of the budget; 0 and not done: all that there is to measure
};

// A file of something else is never completed into a mixture, nor taken for what was asked.
void require_same(const std::string& path, const Provenance& p, const PaperLayout& layout) {
  const std::string next = "give another --into, or move the file away";
  const auto require = [&](bool is_same, const char* what, const std::string& has,
                           const std::string& wants) {
    if (!is_same) throw Error(fmt::format("{}: {}", path, what), has, wants, next);
  };
  require(p.model == layout.flags.model.name, "model", p.model, layout.flags.model.name);
  require(p.layout == layout.layout_name, "layout", p.layout, layout.layout_name);
  require(layout.routing.empty() || p.routing == layout.routing, "routing", p.routing,
          layout.routing);
  const bool simulates = parse_timer(layout.flags.timer).is_simulated;
  require(simulates == (p.gpu == kSimulatedGpu), "gpu", p.gpu,
          simulates ? "simulated" : "measured on a GPU");
}

Standing standing_of(const PaperLayout& layout) {
  const std::string& path = layout.flags.output;
  const double minutes = layout.flags.options.minutes;
  Standing out{.minutes = minutes};
  std::error_code error;
  if (!fs::exists(path, error)) return out;
  out.is_begun = true;
  Provenance provenance;
  std::string end;
  double spent = 0;
  try {
    provenance = load_measurements(path).provenance;
    end = load_campaign_record(path).end;
    spent = campaign_minutes(path);
  } catch (const Error&) {
    return out;  // killed before it had begun, or damaged: its campaign says which
  }
  require_same(path, provenance, layout);
  if (minutes > 0) out.minutes = minutes - spent;
  out.is_done = end == end_name(CampaignReport::End::kFinished) ||
                (minutes > 0 && end == end_name(CampaignReport::End::kBudget) &&
                 out.minutes <= 1e-6 * minutes);
  if (out.is_done && provenance.gpu != kSimulatedGpu && provenance.sources != device_sources_hash())
    fmt::print(stderr,
               "note: {} was measured with other kernels than this program's; another --into "
               "measures it again\n",
               path);
  return out;
}

std::string about_text(double seconds) {
  return seconds < 90 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.1f} min", seconds / 60);
}

std::string minutes_text(double minutes) {
  return minutes > 0 ? fmt::format("{:.3g} min", minutes) : "no limit";
}

// What a file that is redone can't say (how much routing was generated) shows in its passes.
void compare_passes(const PaperLayout& layout) {
  if (!layout.like) return;
  const MeasuredSpace measured = load_measurements(layout.flags.output);
  const MeasuredSpace& before = layout.like->space;
  bool is_same = measured.loads == before.loads && measured.passes.size() == before.passes.size();
  for (std::size_t i = 0; is_same && i < measured.passes.size(); ++i)
    is_same = measured.passes[i].load_of_gpu == before.passes[i].load_of_gpu;
  if (!is_same)
    fmt::print(stderr, "note: {} holds other passes than {}: compare their means, not passes\n",
               layout.flags.output, layout.like->path);
}

}  // namespace

void add_paper_measure_flags(CLI::App& app, PaperMeasureFlags& flags) {
  app.add_flag("--measure", flags.measure,
               "first measure what the result rests on, on this machine's GPU: the layouts of the "
               "files, or --layouts; the same command goes on after a kill");
  app.add_flag("--print", flags.print, "with --measure: say what would be measured, and stop");
  app.add_option("--into", flags.into, "--measure: the folder of the measurements")
      ->capture_default_str();
  app.add_option("--minutes", flags.minutes,
                 "--measure: budget of a layout, compiling and checking apart; 0: all of it")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--layouts", flags.layouts,
                 "--measure: these instead, as olmoe:ep8,olmoe:ep8+balanced,olmoe:tp2");
  app.add_option("--generate", flags.generate,
                 "--measure: generated routing as `ramp profile --generate` takes it; default: the "
                 "files' seed");
  app.add_option("--passes", flags.passes,
                 "--measure: training passes and half as many test passes; default: as the files")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--timer", flags.timer, "--measure: gpu or gpu:N")->capture_default_str();
}

void finish_layouts(std::vector<PaperLayout>& layouts, const PaperMeasureFlags& flags,
                    const std::string& data) {
  parse_timer(flags.timer);
  const fs::path into = fs::weakly_canonical(fs::absolute(flags.into)),
                 shipped = fs::weakly_canonical(fs::absolute(data));
  if (!fs::relative(into, shipped).string().starts_with(".."))
    throw Error("--into", "'" + flags.into + "'", "a folder outside of " + data,
                "what is shipped stays as it is; the default is build/paper");
  std::set<std::string> names;
  for (PaperLayout& layout : layouts) {
    CampaignFlags& f = layout.flags;
    if (!names.insert(f.output).second)
      throw Error("measurements", f.output + " twice", "one layout a file name",
                  "name the files that are to be redone, or --layouts");
    f.output = (fs::path(flags.into) / f.output).string();
    f.options.minutes = flags.minutes;
    f.timer = flags.timer;
    if (flags.passes > 0) f.train = flags.passes, f.test = (flags.passes + 1) / 2;
    if (!flags.generate.empty() && !f.generate.empty()) {
      f.generate = flags.generate;
      layout.routing.clear();  // of another seed
    }
  }
}

void print_layouts(const std::vector<PaperLayout>& layouts) {
  double minutes = 0;
  bool is_limited = true;
  Table table({"<layout", "left", "<"});
  for (const PaperLayout& layout : layouts) {
    if (!layout.why_not.empty()) {
      table.add({layout.title(), "-", "can't be redone: " + layout.why_not});
      continue;
    }
    const Standing standing = standing_of(layout);
    if (!standing.is_done) {
      minutes += standing.minutes;
      is_limited = is_limited && standing.minutes > 0;
    }
    CampaignFlags rest = layout.flags;
    rest.options.minutes = standing.minutes;
    table.add({layout.title(), standing.is_done ? "done" : minutes_text(standing.minutes),
               standing.is_done    ? layout.flags.output
               : standing.is_begun ? profile_command(rest) + "   # goes on"
                                   : profile_command(rest)});
  }
  fmt::print("{}\n{}: {} of measuring, compiling and checking apart\n", table.text(),
             layouts.size() == 1 ? "1 layout" : fmt::format("{} layouts", layouts.size()),
             is_limited ? fmt::format("{:.3g} minutes", minutes) : "no limit");
}

PaperMeasured measure_layouts(const std::vector<PaperLayout>& layouts) {
  using Clock = std::chrono::steady_clock;
  PaperMeasured out;
  std::vector<Standing> standings;
  double left_s = 0;
  int open = 0;
  for (const PaperLayout& layout : layouts) {
    Standing standing = layout.why_not.empty() ? standing_of(layout) : Standing{};
    if (!layout.why_not.empty()) {
      out.failures.push_back(fmt::format("{}: {}", layout.title(), layout.why_not));
    } else if (!standing.is_done) {
      left_s += 60 * standing.minutes;
      ++open;
    }
    standings.push_back(standing);
  }
  if (open > 0) {
    // Before folders are made and routing is generated: where there is no GPU this takes no time.
    const TimerSpec timer = parse_timer(layouts.front().flags.timer);
    if (std::string why; !timer.is_simulated && !gpu::driver_available(&why))
      throw Error(
          why +
          "; --print lists what a machine with a GPU would measure, and without --measure the "
          "shipped measurements are shown");
  }
  // Routing, compiling and checking of a layout, learned from those before.
  double other_s = 0;
  int measured = 0;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const PaperLayout& layout = layouts[i];
    if (!layout.why_not.empty()) continue;
    const std::string place = fmt::format("{}/{} {}", i + 1, layouts.size(), layout.title());
    if (standings[i].is_done) {
      fmt::print(stderr, "{}: measured already, {}\n", place, layout.flags.output);
      out.files.push_back(layout.flags.output);
      continue;
    }
    CampaignFlags flags = layout.flags;
    flags.options.minutes = standings[i].minutes;
    left_s -= 60 * flags.options.minutes;
    --open;
    fmt::print(stderr, "{}: {}\n", place, profile_command(flags));
    fs::create_directories(fs::path(flags.output).parent_path());
    const auto start = Clock::now();
    try {
      const CampaignOutcome outcome = run_campaign_of(flags, {place});
      ++measured;
      other_s +=
          std::chrono::duration<double>(Clock::now() - start).count() - outcome.report.seconds;
      fmt::print(stderr, "{}: {} of {} cells; {}\n", place, outcome.report.cells,
                 outcome.report.planned,
                 open > 0 ? fmt::format("{} to go, about {}", open,
                                        about_text(left_s + open * other_s / measured))
                          : "that was the last");
      compare_passes(layout);
      out.files.push_back(flags.output);
    } catch (const CampaignInterrupted&) {
      throw;
    } catch (const Error& error) {
      // What one layout can't do says nothing of the next.
      fmt::print(stderr, "{}: {}\n", place, error.what());
      out.failures.push_back(fmt::format("{}: {}", layout.title(), error.what()));
    }
  }
  return out;
}

}  // namespace ramp::cli
