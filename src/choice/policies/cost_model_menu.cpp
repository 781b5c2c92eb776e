// SPDX-License-Identifier: Apache-2.0
// Eq. 3 over a greedy menu: what the paper serves (Section 3.1, Table 9).
#include "choice/policies/ranked.hpp"
#include "choice/policy.hpp"

namespace ramp {
namespace {

class CostModelMenu : public Policy {
 public:
  explicit CostModelMenu(const MenuOptions& options) : options_(options) {}
  void learn(const Lesson& lesson) override {
    ranked_ = rank_by_cost_model(lesson, greedy_menu(lesson, options_).candidates);
  }
  int choose(const Seen& seen) const override { return ranked_.cheapest(seen.load); }
  std::size_t bytes() const override { return ranked_.bytes(); }

 private:
  MenuOptions options_;
  Ranked ranked_;
};

}  // namespace

PolicyKind cost_model_menu() {
  return {std::string(kMenuPolicy), "Eq. 3 over one menu for all sizes", Sight::kLoad, Role::kTrain,
          [](const PolicyOptions& o) -> std::unique_ptr<Policy> {
            return std::make_unique<CostModelMenu>(o.menu);
          }};
}

}  // namespace ramp
