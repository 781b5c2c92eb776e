// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <future>
#include <set>
#include <thread>

#include "base/error.hpp"
#include "choice/statistics.hpp"
#include "lab/paper/numbers.hpp"
#include "lab/simulated_timer.hpp"
#include "problem/catalog.hpp"

namespace ramp {

std::string MeasuredFile::base_layout() const {
  const std::string& layout = space.provenance.layout;
  return layout.substr(0, layout.find('+'));
}

std::string MeasuredFile::placement() const {
  const std::string& layout = space.provenance.layout;
  const size_t plus = layout.find('+');
  return plus == std::string::npos ? "" : layout.substr(plus + 1);
}

std::string MeasuredFile::name() const { return std::filesystem::path(path).filename().string(); }

std::vector<MatchedRow> match_rows(const std::vector<PaperRow>& paper,
                                   const std::vector<MeasuredFile>& files,
                                   const std::function<bool(const MeasuredFile&)>& belongs) {
  std::vector<MatchedRow> rows;
  std::set<const MeasuredFile*> taken;
  for (const PaperRow& row : paper) {
    MatchedRow matched{std::string(row.model), std::string(row.layout), &row, nullptr};
    const size_t before = rows.size();
    for (const MeasuredFile& file : files) {
      if (!belongs(file) || file.space.provenance.model != row.model ||
          file.base_layout() != row.layout)
        continue;
      matched.file = &file;
      taken.insert(&file);
      rows.push_back(matched);
    }
    if (rows.size() == before) rows.push_back(matched);
  }
  for (const MeasuredFile& file : files)
    if (belongs(file) && !taken.count(&file))
      rows.push_back({file.space.provenance.model, file.base_layout(), nullptr, &file});
  return rows;
}

std::vector<std::shared_ptr<const Evaluation>> evaluate_rows(
    const std::vector<MatchedRow>& rows, const std::vector<std::string>& policies,
    const PaperRequest& request, Report& report) {
  EvaluateOptions options;
  options.policies = policies;
  options.policy.menu = request.menu;
  options.large_batch = request.large_batch;
  options.resamples = 1;  // intervals are those of the ratios that are shown
  std::vector<std::shared_ptr<const Evaluation>> out(rows.size());
  std::vector<std::string> why(rows.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next++) < rows.size();) {
      if (!rows[i].file) continue;
      try {
        out[i] = std::make_shared<Evaluation>(evaluate(rows[i].file->space, options));
      } catch (const Error& e) {
        why[i] = e.what();
      }
    }
  };
  std::vector<std::future<void>> helpers;
  for (unsigned t = 1; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
    helpers.push_back(std::async(std::launch::async, work));
  work();
  for (auto& helper : helpers) helper.get();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].file) continue;
    if (!why[i].empty())
      report.notes.push_back(fmt::format("{} is left out: {}", rows[i].file->name(), why[i]));
    else
      report.files.push_back(rows[i].file->path);
  }
  return out;
}

Number ratio_of(const Evaluation& evaluation, std::string_view slow, std::string_view fast,
                int least_tokens, const PaperRequest& request) {
  const std::vector<double> logs = log_ratios(evaluation.tokens, score_of(evaluation, slow).times,
                                              score_of(evaluation, fast).times, least_tokens);
  if (logs.empty()) return {};
  const Interval interval = bootstrap_exp_mean(logs, request.resamples, request.seed);
  return {exp_mean(logs), interval.low, interval.high};
}

Number minus_one(Number ratio) { return {ratio.value - 1, ratio.low - 1, ratio.high - 1}; }

Number gap_of(const Evaluation& evaluation, std::string_view policy, std::string_view bound,
              int least_tokens, const PaperRequest& request) {
  return minus_one(ratio_of(evaluation, policy, bound, least_tokens, request));
}

void OverLayouts::add(const Evaluation& evaluation, std::string_view slow, std::string_view fast,
                      int least_tokens) {
  std::vector<double> logs = log_ratios(evaluation.tokens, score_of(evaluation, slow).times,
                                        score_of(evaluation, fast).times, least_tokens);
  if (!logs.empty()) logs_.push_back(std::move(logs));
}

Number OverLayouts::mean(const PaperRequest& request) const {
  if (logs_.empty()) return {};
  const Interval interval = bootstrap_exp_mean_of_groups(logs_, request.resamples, request.seed);
  return {exp_mean_of_groups(logs_), interval.low, interval.high};
}

double OverLayouts::worst() const {
  double worst = Number::kUnknown;
  for (const auto& logs : logs_) worst = std::fmax(worst, exp_mean(logs));
  return worst;
}

std::string scored_on(const MeasuredFile& file, const Evaluation& evaluation,
                      const PaperRequest& request) {
  const PassTimes& best = score_of(evaluation, kOraclePolicy).times;
  const auto timed = [&](int least) {
    return log_ratios(evaluation.tokens, best, best, least).size();
  };
  std::string text = fmt::format("{} passes ({}), {}", timed(0), timed(request.large_batch),
                                 held_out_of(file.space));
  if (file.is_imported()) text += "; imported kernel";
  if (file.space.provenance.gpu == kSimulatedGpu) text += "; SIMULATED";
  return text;
}

double exp_mean_of(const std::vector<double>& ratios) {
  std::vector<double> logs;
  for (const double ratio : ratios) logs.push_back(std::log(ratio));
  return exp_mean(logs);
}

std::string held_out_of(const MeasuredSpace& space) {
  constexpr std::string_view kScoredOn = "; scored on ";
  const std::string& routing = space.provenance.routing;
  if (const size_t at = routing.find(kScoredOn); at != std::string::npos)
    return routing.substr(at + kScoredOn.size());
  std::set<std::string> train, test;
  for (const MeasuredPass& pass : space.passes) {
    if (pass.role == Role::kTrain) train.insert(pass.domain);
    if (pass.role == Role::kTest) test.insert(pass.domain);
  }
  if (test.empty()) return "nothing";
  if (test.size() == 1 && !train.count(*test.begin())) return "domain " + *test.begin();
  return "other requests";
}

std::string tune_command(const std::string& model, const std::string& layout,
                         const std::string& extra) {
  return fmt::format("ramp tune --model {} --layout {} --generate seed=1{}{} --minutes 2", model,
                     layout, extra.empty() ? "" : " ", extra);
}

std::string model_title(const std::string& model) {
  const Model* known = find_model_or_null(model);
  return known ? known->full_name : model.empty() ? "unnamed" : model;
}

std::string layout_title(const std::string& layout) {
  std::string title = layout;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return title;
}

}  // namespace ramp
