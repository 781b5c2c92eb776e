// SPDX-License-Identifier: Apache-2.0
#include "choice/policies/spread_policy.hpp"

namespace ramp {
namespace {

class SpreadPolicy : public Policy {
 public:
  explicit SpreadPolicy(std::vector<SpreadAxis> axes) : axes_(std::move(axes)) {}
  void learn(const Lesson& lesson) override { table_ = tune_spread_table(lesson, axes_); }
  int choose(const Seen& seen) const override { return table_.lookup(seen.load); }
  std::size_t bytes() const override { return table_.bytes(); }

 private:
  std::vector<SpreadAxis> axes_;
  GpuTable table_;
};

}  // namespace

std::unique_ptr<Policy> spread_policy(std::vector<SpreadAxis> axes) {
  return std::make_unique<SpreadPolicy>(std::move(axes));
}

}  // namespace ramp
