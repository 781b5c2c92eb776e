// SPDX-License-Identifier: Apache-2.0
// Exhaustive search (Section 2.4): times every configuration on each GPU's load and keeps the
// fastest.  It picks on one half of the samples and is scored on the other, like everybody else.
#include "choice/policy.hpp"

namespace ramp {
namespace {

class Exhaustive : public Policy {
 public:
  void learn(const Lesson&) override {}
  int choose(const Seen& seen) const override {
    int best = 0;
    for (size_t c = 1; c < seen.timed.size(); ++c)
      if (seen.timed[c] < seen.timed[best]) best = static_cast<int>(c);
    return best;
  }
  std::size_t bytes() const override { return 0; }
};

}  // namespace

PolicyKind exhaustive() {
  return {std::string(kOraclePolicy), "times everything on the load itself (the bound)",
          Sight::kTimes, Role::kTrain, [](const PolicyOptions&) -> std::unique_ptr<Policy> {
            return std::make_unique<Exhaustive>();
          }};
}

}  // namespace ramp
