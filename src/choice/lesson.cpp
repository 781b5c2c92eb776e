// SPDX-License-Identifier: Apache-2.0
#include "choice/lesson.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "choice/sizes.hpp"

namespace ramp {

namespace {

template <class Wanted>
Lesson lesson_of_passes(const MeasuredSpace& space, Half half, const Wanted& is_wanted) {
  Lesson lesson;
  lesson.shape = space.shape;
  lesson.gpus = space.gpus;
  lesson.candidates = space.candidates;
  std::vector<int> kept(space.loads.size(), -1);  // index in the space -> index in the lesson
  std::vector<int> source;
  for (const MeasuredPass& pass : space.passes) {
    if (!is_wanted(pass)) continue;
    LessonPass copy{pass.tokens, pass.load_of_gpu};
    for (int& load : copy.load_of_gpu) {
      if (load < 0) continue;
      if (kept[load] < 0) {
        kept[load] = static_cast<int>(lesson.loads.size());
        lesson.loads.push_back(space.loads[load]);
        source.push_back(load);
      }
      load = kept[load];
    }
    lesson.passes.push_back(std::move(copy));
  }
  for (const ShippedPick& pick : space.shipped)
    for (size_t c = 0; c < space.candidates.size(); ++c)
      if (space.candidates[c].label == pick.label) {
        lesson.shipped_tokens.push_back(pick.tokens);
        lesson.shipped_candidates.push_back(static_cast<int>(c));
      }
  const TimeTable all = median_times(space, half);
  std::vector<int> timed(all.size());
  for (size_t c = 0; c < all.size(); ++c) {
    std::vector<float> row(source.size());
    for (size_t l = 0; l < source.size(); ++l) row[l] = all[c][source[l]];
    timed[c] = static_cast<int>(std::count_if(row.begin(), row.end(), is_time));
    lesson.us.push_back(std::move(row));
  }
  const int most = timed.empty() ? 0 : *std::max_element(timed.begin(), timed.end());
  for (size_t c = 0; c < timed.size(); ++c)
    if (timed[c] > 0 && 2 * timed[c] >= most) lesson.learnable.push_back(static_cast<int>(c));
  return lesson;
}

}  // namespace

Lesson make_lesson(const MeasuredSpace& space, Role role, Half half) {
  return lesson_of_passes(space, half,
                          [role](const MeasuredPass& pass) { return pass.role == role; });
}

Lesson make_lesson_of_all_sizes(const MeasuredSpace& space) {
  std::vector<bool> is_timed(space.loads.size());
  for (const auto& row : space.samples)
    for (size_t l = 0; l < row.size(); ++l) is_timed[l] = is_timed[l] || !row[l].empty();
  bool has_training[kSizeRanges] = {};
  for (const MeasuredPass& pass : space.passes)
    if (pass.role == Role::kTrain)
      for (int load : pass.load_of_gpu)
        if (load >= 0 && is_timed[load]) has_training[size_range(pass.tokens)] = true;
  return lesson_of_passes(space, Half::kBoth, [&](const MeasuredPass& pass) {
    return pass.role == Role::kTrain ||
           (pass.role == Role::kUniform && !has_training[size_range(pass.tokens)]);
  });
}

Lesson lesson_for(Lesson lesson, const std::vector<Candidate>& candidates) {
  std::map<std::string, int> known;
  for (int c : lesson.learnable) known.emplace(lesson.candidates[c].label, c);
  const std::vector<float> untimed(lesson.loads.size(), std::numeric_limits<float>::infinity());
  TimeTable us;
  lesson.learnable.clear();
  for (size_t c = 0; c < candidates.size(); ++c) {
    const auto found = known.find(candidates[c].label);
    us.push_back(found == known.end() ? untimed : lesson.us[found->second]);
    if (found != known.end()) lesson.learnable.push_back(static_cast<int>(c));
  }
  lesson.us = std::move(us);
  lesson.candidates = candidates;
  lesson.shipped_tokens.clear(), lesson.shipped_candidates.clear();  // of the other layout
  return lesson;
}

std::vector<Lesson> recorded_lessons(std::span<const MeasuredSpace* const> spaces, Half half) {
  std::vector<Lesson> lessons;
  for (const MeasuredSpace* space : spaces)
    for (const Role role : {Role::kTrain, Role::kTest})
      lessons.push_back(make_lesson(*space, role, half));
  return lessons;
}

bool pass_has_work(const LessonPass& pass) {
  return std::any_of(pass.load_of_gpu.begin(), pass.load_of_gpu.end(),
                     [](int l) { return l >= 0; });
}

}  // namespace ramp
