// SPDX-License-Identifier: Apache-2.0
// Eq. 3 over greedy menus.  `cost-model-menu` is the paper's: one for all sizes (Section 3.1,
// Table 9).  `cost-model-menus` is what a plan serves: the graph of a batch size holds the kernel
// of its menu, the routing picks the entry.
#include "choice/policies/ranked.hpp"
#include "choice/policy.hpp"

namespace ramp {
namespace {

class CostModelMenus : public Policy {
 public:
  explicit CostModelMenus(const MenuOptions& options) : options_(options) {}
  void learn(const Lesson& lesson) override {
    menus_.ranges.clear();
    const std::vector<SizedMenu> menus = menus_by_size(lesson, options_);
    const auto fits = fits_of_menus(lesson, fit_candidates(lesson), menus);
    for (size_t i = 0; i < menus.size(); ++i)
      menus_.ranges.push_back(
          {menus[i].up_to, rank_by_fits(lesson, menus[i].menu.candidates, fits[i])});
  }
  int choose(const Seen& seen) const override { return menus_.cheapest(seen.tokens, seen.load); }
  std::size_t bytes() const override { return menus_.bytes(); }

 private:
  MenuOptions options_;
  RankedBySize menus_;
};

}  // namespace

PolicyKind cost_model_menu() {
  return {std::string(kMenuPolicy), "Eq. 3 over one menu for all sizes", Sight::kLoad, Role::kTrain,
          [](const PolicyOptions& o) -> std::unique_ptr<Policy> {
            MenuOptions one = o.menu;
            one.menus = 1;
            return std::make_unique<CostModelMenus>(one);
          }};
}

PolicyKind cost_model_menus() {
  return {std::string(kMenusPolicy), "Eq. 3 over a menu a range of sizes: what a plan serves",
          Sight::kLoad, Role::kTrain, [](const PolicyOptions& o) -> std::unique_ptr<Policy> {
            return std::make_unique<CostModelMenus>(o.menu);
          }};
}

}  // namespace ramp
