// SPDX-License-Identifier: Apache-2.0
// One configuration for everything: the best single one on the training passes, which is more than
// a kernel's author can know when writing down a default.
#include "base/error.hpp"
#include "choice/batch_table.hpp"
#include "choice/policy.hpp"

namespace ramp {
namespace {

class FixedDefault : public Policy {
 public:
  void learn(const Lesson& lesson) override {
    std::vector<int> passes;
    for (size_t p = 0; p < lesson.passes.size(); ++p)
      if (pass_has_work(lesson.passes[p])) passes.push_back(static_cast<int>(p));
    choice_ = best_candidate(lesson.learnable, static_cast<int>(passes.size()), [&](int c, int i) {
      return pass_us(lesson.us, lesson.passes[passes[i]].load_of_gpu, c);
    });
    if (choice_ < 0)
      throw Error("training passes", fmt::format("{}, none timed", lesson.passes.size()),
                  "1 or more timed passes", "profile the recorded passes of the trace");
  }
  int choose(const Seen&) const override { return choice_; }
  std::size_t bytes() const override { return sizeof choice_; }

 private:
  int choice_ = -1;
};

}  // namespace

PolicyKind fixed_default() {
  return {std::string(kFixedPolicy), "the best single configuration on the training passes",
          Sight::kNothing, Role::kTrain, [](const PolicyOptions&) -> std::unique_ptr<Policy> {
            return std::make_unique<FixedDefault>();
          }};
}

}  // namespace ramp
