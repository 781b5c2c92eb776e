// SPDX-License-Identifier: Apache-2.0
// vLLM's tuning (Section 2.4), on this kernel and its configurations: eighteen batch sizes, uniform
// routing, the entry nearest to the pass's tokens, the same on every GPU.
#include "choice/batch_table.hpp"
#include "choice/policy.hpp"

namespace ramp {
namespace {

class VllmTuning : public Policy {
 public:
  void learn(const Lesson& uniform) override {
    table_ = tune_batch_table(uniform, uniform.learnable);
  }
  int choose(const Seen& seen) const override { return table_.lookup(seen.tokens); }
  std::size_t bytes() const override { return table_.bytes(); }

 private:
  BatchTable table_;
};

}  // namespace

PolicyKind vllm_tuning() {
  return {std::string(kVllmPolicy), "batch-size table, tuned on uniform routing", Sight::kBatch,
          Role::kUniform, [](const PolicyOptions&) -> std::unique_ptr<Policy> {
            return std::make_unique<VllmTuning>();
          }};
}

}  // namespace ramp
