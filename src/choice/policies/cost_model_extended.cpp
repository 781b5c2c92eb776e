// SPDX-License-Identifier: Apache-2.0
// Ours: the weighted fit with terms beside Eq. 3's (extended_model.hpp).  The GPU's choice does not
// evaluate them; this policy says what they would be worth.
#include "choice/extended_model.hpp"
#include "choice/policy.hpp"

namespace ramp {
namespace {

class CostModelExtended : public Policy {
 public:
  explicit CostModelExtended(const std::vector<std::string>& terms) : model_(terms) {}
  void learn(const Lesson& lesson) override { model_.fit(lesson, lesson.learnable); }
  int choose(const Seen& seen) const override { return model_.cheapest(seen.load); }
  std::size_t bytes() const override { return model_.bytes(); }

 private:
  ExtendedModel model_;
};

}  // namespace

PolicyKind cost_model_extended() {
  return {"cost-model-extended", "ours: the weighted fit with further terms (--terms)",
          Sight::kLoad, Role::kTrain, [](const PolicyOptions& o) -> std::unique_ptr<Policy> {
            return std::make_unique<CostModelExtended>(o.terms);
          }};
}

}  // namespace ramp
