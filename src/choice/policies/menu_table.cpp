// SPDX-License-Identifier: Apache-2.0
// A batch-size table on the menu that the cost model serves (Tables 9 and 10): what is left of the
// gain when only the way of choosing differs.
#include "choice/batch_table.hpp"
#include "choice/policy.hpp"

namespace ramp {
namespace {

class MenuTable : public Policy {
 public:
  explicit MenuTable(const MenuOptions& options) : options_(options) {}
  void learn(const Lesson& lesson) override {
    table_ = tune_batch_table(lesson, greedy_menu(lesson, options_).candidates);
  }
  int choose(const Seen& seen) const override { return table_.lookup(seen.tokens); }
  std::size_t bytes() const override { return table_.bytes(); }

 private:
  MenuOptions options_;
  BatchTable table_;
};

}  // namespace

PolicyKind menu_table() {
  return {"menu-table", "batch-size table on the same menu", Sight::kBatch, Role::kTrain,
          [](const PolicyOptions& o) -> std::unique_ptr<Policy> {
            return std::make_unique<MenuTable>(o.menu);
          }};
}

}  // namespace ramp
