// SPDX-License-Identifier: Apache-2.0
// What a policy may learn from: a copy of one role's passes, their loads and their times, and
// nothing else.  Because the other passes are not in it, no policy can see what it will be scored
// on.
#pragma once

#include <span>
#include <vector>

#include "choice/times.hpp"

namespace ramp {

struct LessonPass {
  int tokens = 0;                // B
  std::vector<int> load_of_gpu;  // index into Lesson::loads, -1 where the GPU got no token
};

struct Lesson {
  LocalShape shape;
  int gpus = 1;
  std::vector<Candidate> candidates;
  std::vector<std::vector<int>> loads;
  std::vector<LessonPass> passes;
  TimeTable us;  // [candidate][load]
  std::vector<int>
      learnable;  // candidates that the lesson covers well enough to be picked, ascending
  // What the kernel runs by itself where its owner said so (MeasuredSpace::shipped): tokens,
  // ascending, and the candidate of each.
  std::vector<int> shipped_tokens, shipped_candidates;
  // Recorded passes of other models, a lesson a file and role, with candidates of their own: for
  // policies that know this layer only by its shape (transfer_policy_kinds).  Else empty.
  std::vector<Lesson> others;
};

// A campaign with a budget times the contenders on every load and the rest on a few.  A candidate
// is learnable when it was timed on at least half as many of the lesson's loads as the best covered
// one; the others keep their fit, for the ranking, and are never picked.
Lesson make_lesson(const MeasuredSpace& space, Role role, Half half);

// The lesson that a plan is made of: the training passes, and the uniform draws of ranges of sizes
// of which no training pass was timed.  Beside training passes these lead astray: where experts are
// balanced another configuration is the fastest (docs/policies.md).
Lesson make_lesson_of_all_sizes(const MeasuredSpace& space);

// What was learned on one layout, for the candidates of another, which are the same by label: those
// that the lesson does not know can't be learned.
Lesson lesson_for(Lesson lesson, const std::vector<Candidate>& candidates);

// Recorded passes of other models, for Lesson::others: nothing is scored on these there, so their
// test passes teach as well.
std::vector<Lesson> recorded_lessons(std::span<const MeasuredSpace* const> spaces, Half half);

// Whether any GPU got a token.
bool pass_has_work(const LessonPass& pass);

}  // namespace ramp
