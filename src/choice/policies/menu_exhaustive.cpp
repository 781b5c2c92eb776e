// SPDX-License-Identifier: Apache-2.0
// The best menu entry for every load, by timing all of them: parts the loss of serving a menu from
// the loss of choosing in it (Table 9).
#include "choice/policy.hpp"

namespace ramp {
namespace {

class MenuExhaustive : public Policy {
 public:
  explicit MenuExhaustive(const MenuOptions& options) : options_(options) {}
  void learn(const Lesson& lesson) override { menu_ = greedy_menu(lesson, options_).candidates; }
  int choose(const Seen& seen) const override {
    int best = menu_[0];
    for (int c : menu_)
      if (seen.timed[c] < seen.timed[best]) best = c;
    return best;
  }
  std::size_t bytes() const override { return 0; }

 private:
  MenuOptions options_;
  std::vector<int> menu_;
};

}  // namespace

PolicyKind menu_exhaustive() {
  return {"menu-exhaustive", "times every menu entry on the load itself (a bound)", Sight::kTimes,
          Role::kTrain, [](const PolicyOptions& o) -> std::unique_ptr<Policy> {
            return std::make_unique<MenuExhaustive>(o.menu);
          }};
}

}  // namespace ramp
