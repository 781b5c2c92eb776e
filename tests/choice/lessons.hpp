// SPDX-License-Identifier: Apache-2.0
// Test only: what is learned from a measured space.
#pragma once

#include <memory>
#include <string_view>

#include "choice/lesson.hpp"
#include "choice/policy.hpp"

namespace ramp {

inline Lesson lesson_of(const MeasuredSpace& space) {
  return make_lesson(space, Role::kTrain, Half::kBoth);
}

inline std::unique_ptr<Policy> learned(std::string_view name, const MeasuredSpace& space) {
  const PolicyKind& kind = policy_kind(name);
  std::unique_ptr<Policy> policy = kind.make({});
  policy->learn(make_lesson(space, kind.learns_from, Half::kBoth));
  return policy;
}

}  // namespace ramp
