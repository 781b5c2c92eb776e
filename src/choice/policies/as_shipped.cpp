// SPDX-License-Identifier: Apache-2.0
// What a kernel that is not ours runs by itself: its owner's table or default, which came in with
// the times.  The line that a choice for such a kernel has to beat.
#include "base/error.hpp"
#include "choice/batch_table.hpp"
#include "choice/policy.hpp"

namespace ramp {
namespace {

class AsShipped : public Policy {
 public:
  void learn(const Lesson& lesson) override {
    if (lesson.shipped_tokens.empty())
      throw Error("as-shipped", "no picks of the kernel's owner in these measurements",
                  "a table that says them",
                  "add lines `# shipped TOKENS: CONFIG` to the table and import it again");
    table_ = {lesson.shipped_tokens, lesson.shipped_candidates};
  }
  int choose(const Seen& seen) const override { return table_.lookup(seen.tokens); }
  std::size_t bytes() const override { return table_.bytes(); }

 private:
  BatchTable table_;
};

}  // namespace

PolicyKind as_shipped() {
  return {std::string(kShippedPolicy), "what the kernel runs by itself, by batch size",
          Sight::kBatch, Role::kTrain, [](const PolicyOptions&) -> std::unique_ptr<Policy> {
            return std::make_unique<AsShipped>();
          }};
}

}  // namespace ramp
