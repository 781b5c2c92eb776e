// SPDX-License-Identifier: Apache-2.0
// Eq. 3 over the full configuration space: the policy of the paper's Tables 3 and 5.
#include "choice/policies/ranked.hpp"
#include "choice/policy.hpp"

namespace ramp {
namespace {

class CostModel : public Policy {
 public:
  void learn(const Lesson& lesson) override {
    ranked_ = rank_by_cost_model(lesson, lesson.learnable);
  }
  int choose(const Seen& seen) const override { return ranked_.cheapest(seen.load); }
  std::size_t bytes() const override { return ranked_.bytes(); }

 private:
  Ranked ranked_;
};

}  // namespace

PolicyKind cost_model() {
  return {"cost-model", "Eq. 3 over the full space", Sight::kLoad, Role::kTrain,
          [](const PolicyOptions&) -> std::unique_ptr<Policy> {
            return std::make_unique<CostModel>();
          }};
}

}  // namespace ramp
