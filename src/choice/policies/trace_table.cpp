// SPDX-License-Identifier: Apache-2.0
// The trace-tuned table (Section 4): vLLM's lookup, tuned on recorded passes.
#include "choice/batch_table.hpp"
#include "choice/policy.hpp"

namespace ramp {
namespace {

class TraceTable : public Policy {
 public:
  void learn(const Lesson& lesson) override { table_ = tune_batch_table(lesson, lesson.learnable); }
  int choose(const Seen& seen) const override { return table_.lookup(seen.tokens); }
  std::size_t bytes() const override { return table_.bytes(); }

 private:
  BatchTable table_;
};

}  // namespace

PolicyKind trace_table() {
  return {"trace-table", "batch-size table, tuned on the training passes", Sight::kBatch,
          Role::kTrain, [](const PolicyOptions&) -> std::unique_ptr<Policy> {
            return std::make_unique<TraceTable>();
          }};
}

}  // namespace ramp
