// SPDX-License-Identifier: Apache-2.0
// Eq. 3 over a menu for small passes and one for the rest: what a plan serves.  The graph of a
// batch size holds the kernel of its menu, the routing picks the entry.
#include "choice/policies/ranked.hpp"
#include "choice/policy.hpp"

namespace ramp {
namespace {

class CostModelMenus : public Policy {
 public:
  explicit CostModelMenus(const MenuOptions& options) : options_(options) {}
  void learn(const Lesson& lesson) override {
    menus_.clear();
    for (const SizedMenu& sized : menus_by_size(lesson, options_))
      menus_.push_back({sized.up_to, rank_by_cost_model(lesson, sized.menu.candidates)});
  }
  int choose(const Seen& seen) const override {
    for (const Sized& s : menus_)
      if (seen.tokens <= s.up_to) return s.ranked.cheapest(seen.load);
    return menus_.back().ranked.cheapest(seen.load);
  }
  std::size_t bytes() const override {
    std::size_t sum = 0;
    for (const Sized& s : menus_) sum += s.ranked.bytes();
    return sum;
  }

 private:
  struct Sized {
    int up_to;
    Ranked ranked;
  };
  MenuOptions options_;
  std::vector<Sized> menus_;
};

}  // namespace

PolicyKind cost_model_menus() {
  return {std::string(kMenusPolicy), "Eq. 3 over a menu a range of sizes: what a plan serves",
          Sight::kLoad, Role::kTrain, [](const PolicyOptions& o) -> std::unique_ptr<Policy> {
            return std::make_unique<CostModelMenus>(o.menu);
          }};
}

}  // namespace ramp
