// SPDX-License-Identifier: Apache-2.0
// Ours: Eq. 3 as it is, fitted with more weight where a configuration competes (fit.hpp).  Only the
// coefficients differ from the paper's, so the GPU evaluates them with the same code at the same
// cost.
#include "choice/policies/ranked.hpp"
#include "choice/policy.hpp"

namespace ramp {
namespace {

class CostModelWeighted : public Policy {
 public:
  void learn(const Lesson& lesson) override {
    ranked_ = rank_by_cost_model(lesson, lesson.learnable, lesson.learnable);
  }
  int choose(const Seen& seen) const override { return ranked_.cheapest(seen.load); }
  std::size_t bytes() const override { return ranked_.bytes(); }

 private:
  Ranked ranked_;
};

}  // namespace

PolicyKind cost_model_weighted() {
  return {"cost-model-weighted", "ours: Eq. 3, fitted where a configuration competes", Sight::kLoad,
          Role::kTrain, [](const PolicyOptions&) -> std::unique_ptr<Policy> {
            return std::make_unique<CostModelWeighted>();
          }};
}

}  // namespace ramp
