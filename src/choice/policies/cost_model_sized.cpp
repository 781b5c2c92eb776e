// SPDX-License-Identifier: Apache-2.0
// Ours: Eq. 3 with coefficients of its own for each range of pass sizes.  A serving engine captures
// a graph a batch size, so the range is known before the launch, and the GPU evaluates what it
// evaluates anyway.
#include <limits>
#include <vector>

#include "choice/policies/ranked.hpp"
#include "choice/policy.hpp"
#include "choice/sizes.hpp"

namespace ramp {
namespace {

class CostModelSized : public Policy {
 public:
  void learn(const Lesson& lesson) override {
    ranges_.clear();
    const std::vector<CandidateFit> whole = fit_candidates(lesson);
    for (int range = 0; range < kSizeRanges; ++range) {
      const int above = range > 0 ? kSizeLimits[range - 1] : 0;
      const int up_to =
          range + 1 < kSizeRanges ? kSizeLimits[range] : std::numeric_limits<int>::max();
      ranges_.push_back(rank_by_fits(lesson, lesson.learnable,
                                     fit_candidates_of_sizes(lesson, whole, above, up_to)));
    }
  }
  int choose(const Seen& seen) const override {
    return ranges_[static_cast<std::size_t>(size_range(seen.tokens))].cheapest(seen.load);
  }
  std::size_t bytes() const override {
    std::size_t sum = 0;
    for (const Ranked& r : ranges_) sum += r.bytes();
    return sum;
  }

 private:
  std::vector<Ranked> ranges_;
};

}  // namespace

PolicyKind cost_model_sized() {
  return {"cost-model-sized", "ours: Eq. 3, fitted a range of pass sizes", Sight::kLoad,
          Role::kTrain, [](const PolicyOptions&) -> std::unique_ptr<Policy> {
            return std::make_unique<CostModelSized>();
          }};
}

}  // namespace ramp
