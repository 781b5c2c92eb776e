// SPDX-License-Identifier: Apache-2.0
// Claims about the measurements themselves: who wins where, how well Eq. 3 predicts, what layers
// and polymorphic kernels cost.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "choice/batch_table.hpp"
#include "choice/fit_quality.hpp"
#include "lab/paper/claims.hpp"
#include "lab/paper/peers.hpp"
#include "lab/paper/records.hpp"
#include "lab/paper/winners.hpp"
#include "problem/catalog.hpp"

namespace ramp {
namespace {

using nlohmann::json;

const MeasuredFile* file_of(const ClaimInput& input, std::string_view model,
                            std::string_view layout) {
  for (const MeasuredFile* file : input.files)
    if (file->space.provenance.model == model && file->base_layout() == layout) return file;
  return nullptr;
}

// The recorded pass whose size is nearest and that was timed on every GPU.
const MeasuredPass* pass_near(const MeasuredSpace& space, const TimeTable& us, int tokens) {
  const MeasuredPass* best = nullptr;
  for (const MeasuredPass& pass : space.passes) {
    if (pass.role == Role::kUniform) continue;
    std::vector<int> loads;
    for (const int load : pass.load_of_gpu)
      if (load >= 0) loads.push_back(load);
    if (winning_rows(space, us, loads).size() != loads.size()) continue;
    if (!best || std::abs(pass.tokens - tokens) < std::abs(best->tokens - tokens)) best = &pass;
  }
  return best;
}

void answer_rows(const ClaimInput& input, ClaimAnswers& answers) {
  const MeasuredFile* file = file_of(input, "qwen3-30b", "ep8");
  if (!file) return;
  const MeasuredSpace& space = file->space;
  const TimeTable us = median_times(space, Half::kBoth);
  const MeasuredPass* pass = pass_near(space, us, 256);
  if (!pass) return;
  std::vector<int> loads;
  for (const int load : pass->load_of_gpu)
    if (load >= 0) loads.push_back(load);
  const std::vector<int> rows = winning_rows(space, us, loads);
  answers["row-range"] = {
      spanning({rows.begin(), rows.end()}),
      fmt::format("a pass of {} tokens; the space begins at 8 rows", pass->tokens)};
  try {
    const Lesson uniform = make_lesson(space, Role::kUniform, Half::kBoth);
    const int pick = tune_batch_table(uniform, uniform.learnable).lookup(pass->tokens);
    answers["row-vllm"] = {{static_cast<double>(space.candidates[pick].grid.phase[0].rows)}, ""};
  } catch (const Error&) {
    // No uniform routing in the file: no such table.
  }
}

}  // namespace

void answer_winners(const ClaimInput& input, ClaimAnswers& answers) {
  std::vector<double> means, close, one, one_close, slower;
  size_t passes = 0;
  for (const MeasuredFile* file : input.files) {
    const double slow = small_tiles_on_large(file->space, 32, 512);
    if (!std::isnan(slow)) slower.push_back(slow);
    if (file->base_layout() != "ep8") continue;
    const WinnerCount count = count_winners(file->space, input.request.large_batch);
    if (count.exact.empty()) continue;
    passes += count.exact.size();
    means.push_back(mean(count.exact)), close.push_back(mean(count.close));
    one.push_back(count.one_exact), one_close.push_back(count.one_close);
  }
  answers["wrong-tile"] = {spanning(slower), fmt::format("{} EP layouts", slower.size())};
  if (!means.empty()) {
    answers["winners"] = {
        spanning(means),
        fmt::format("{} files, {} passes; {} would do within {:.0f} % of the fastest", means.size(),
                    passes, text_of(spanning(close), Unit::kMean), 100 * kClose)};
    answers["one-winner"] = {
        {*std::max_element(one.begin(), one.end())},
        fmt::format("{} % of passes within {:.0f} % of the fastest",
                    text_of(spanning(one_close), Unit::kPercent), 100 * kClose)};
  }
  answer_rows(input, answers);
}

void answer_model(const ClaimInput& input, ClaimAnswers& answers) {
  std::vector<double> ranks, twins, errors, again, configurations;
  for (const MeasuredFile& file : input.request.files)
    configurations.push_back(static_cast<double>(file.space.candidates.size()));
  for (const MeasuredFile* file : input.files) {
    const FitQuality quality = fit_quality(file->space, input.request.large_batch);
    ranks.push_back(std::isnan(quality.rank_large) ? quality.rank_all : quality.rank_large);
    twins.push_back(std::isnan(quality.twin_large) ? quality.twin_all : quality.twin_large);
    errors.push_back(quality.pick_error);
    const TimeTable first = median_times(file->space, Half::kFirst),
                    second = median_times(file->space, Half::kSecond);
    std::vector<double> differences;
    for (size_t c = 0; c < first.size(); ++c)
      for (size_t l = 0; l < first[c].size(); ++l)
        if (file->space.samples[c][l].size() > 1)
          differences.push_back(std::abs(first[c][l] / second[c][l] - 1));
    again.push_back(median(std::move(differences)));
  }
  answers["rank"] = {spanning(ranks), fmt::format("two runs of the same thing: {}",
                                                  text_of(spanning(twins), Unit::kRank))};
  answers["pick-error"] = {spanning(errors), fmt::format("{} EP layouts", errors.size())};
  answers["configurations"] = {spanning(configurations), "after the check of their numbers"};
  answers["two-runs"] = {spanning(again), "two halves of a cell's samples, median"};
}

void answer_kernel(const ClaimInput& input, ClaimAnswers& answers) {
  const json layers = parse_records(read_records(input.request.records), "layer records"),
             forced = parse_records(read_records(input.request.forced), "polymorphic records");
  std::vector<double> choice_us, cost;
  for (const json& row : layers["rows"]) {
    const Model* model = find_model_or_null(row.value("model", ""));
    const int pairs = model ? row.value("tokens", 0) * model->shape.top_k : 0;
    if (pairs >= 8 && pairs <= 4096 && row.value("mode", "") == "fast")
      choice_us.push_back(row.value("choice_us", Number::kUnknown));
  }
  answers["select-us"] = {spanning(choice_us),
                          "what prepare adds to a layer: choice, grouping, quantising rows, "
                          "clearing the output"};
  if (forced.contains("forced"))
    for (const json& row : forced["forced"])
      cost.push_back(row.value("forced_us", Number::kUnknown) /
                     row.value("alone_us", Number::kUnknown));
  if (!cost.empty())
    answers["menu-6"] = {{median(cost)},
                         fmt::format("{} entries and sizes, {}", cost.size(),
                                     text_of(spanning(cost), Unit::kTimes))};

  const std::vector<PeerLayer> peers = peer_layers(input.request);
  std::set<std::pair<std::string, std::string>> layouts;
  for (const PeerLayer& layer : peers)
    if (layer.layout.starts_with("ep")) layouts.emplace(layer.model, layer.layout);
  std::vector<double> total;
  for (const auto& [model, layout] : layouts)
    total.push_back(
        over_triton(peers, model, layout, input.request.large_batch, input.request).value);
  answers["layer-total"] = {spanning(total), fmt::format("{} EP layouts", total.size())};
}

}  // namespace ramp
