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
    sizes_.ranges.clear();
    const std::vector<CandidateFit> whole = fit_candidates(lesson);
    int above = 0;
    for (int range = 0; range < kSizeRanges; ++range) {
      const int up_to =
          range + 1 < kSizeRanges ? kSizeLimits[range] : std::numeric_limits<int>::max();
      sizes_.ranges.push_back(
          {up_to, rank_by_fits(lesson, lesson.learnable,
                               fit_candidates_of_sizes(lesson, whole, above, up_to))});
      above = up_to;
    }
  }
  int choose(const Seen& seen) const override { return sizes_.cheapest(seen.tokens, seen.load); }
  std::size_t bytes() const override { return sizes_.bytes(); }

 private:
  RankedBySize sizes_;
};

}  // namespace

PolicyKind cost_model_sized() {
  return {"cost-model-sized", "ours: Eq. 3, fitted a range of pass sizes", Sight::kLoad,
          Role::kTrain, [](const PolicyOptions&) -> std::unique_ptr<Policy> {
            return std::make_unique<CostModelSized>();
          }};
}

}  // namespace ramp
