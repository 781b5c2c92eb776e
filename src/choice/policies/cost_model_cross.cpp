// SPDX-License-Identifier: Apache-2.0
// The cost model with the layer's dimensions in its terms, fitted on other models
// (cross_model.hpp): of this layer it looks at the shape and at which configurations were timed,
// never at a time.
#include <cmath>

#include "base/error.hpp"
#include "choice/cross_model.hpp"
#include "choice/policy.hpp"

namespace ramp {
namespace {

class CostModelCross : public Policy {
 public:
  void learn(const Lesson& lesson) override {
    model_.fit(lesson.others, lesson.shape);
    candidates_.clear();
    for (const int c : lesson.learnable)
      if (model_.knows(lesson.candidates[c])) candidates_.emplace_back(c, lesson.candidates[c]);
    if (candidates_.empty())
      throw Error("configurations", "none that the other layers' measurements know", "1 or more",
                  "name measurement files of the same kernels");
  }

  int choose(const Seen& seen) const override {
    int best = candidates_[0].first;
    double best_us = INFINITY;
    for (const auto& [index, candidate] : candidates_)
      if (const double us = model_.predict_us(candidate, seen.load); us < best_us)
        best = index, best_us = us;
    return best;
  }

  std::size_t bytes() const override { return model_.bytes(); }

 private:
  CrossModel model_;
  std::vector<std::pair<int, Candidate>> candidates_;
};

}  // namespace

PolicyKind cost_model_cross() {
  return {"cost-model-cross",
          "ours: the layer's dimensions in the terms, fitted on other models alone", Sight::kLoad,
          Role::kTrain, [](const PolicyOptions&) -> std::unique_ptr<Policy> {
            return std::make_unique<CostModelCross>();
          }};
}

}  // namespace ramp
