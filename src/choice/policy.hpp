// SPDX-License-Identifier: Apache-2.0
// A policy picks a configuration for one GPU in one pass (Section 4, Baselines).  It learns from a
// Lesson, which holds the passes of one role and no others, and chooses from what it may see.  A
// new policy is one file in policies/ and a row in policy.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "choice/extended_model.hpp"
#include "choice/menu.hpp"

namespace ramp {

struct Seen {
  int tokens = 0;             // B of the pass: all that a serving system's table looks at
  std::span<const int> load;  // n_e of this GPU's experts: known only on the GPU, after routing
  // us of every candidate on this very load, infinity where it was not timed.  Empty but for
  // Sight::kTimes.
  std::span<const float> timed;
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Throws Error when the lesson is not enough.
  virtual void learn(const Lesson& lesson) = 0;
  // Index into the lesson's candidates.
  virtual int choose(const Seen& seen) const = 0;
  // What choosing has to hold at run time: table rows, coefficients, exemplars.  0 for oracles.
  virtual std::size_t bytes() const = 0;
};

// How much a policy looks at when it chooses; each sees what those before it see, and no more.
enum class Sight {
  kNothing,
  kBatch,     // Seen::tokens: a host knows it before the launch
  kGpuCount,  // the sum of Seen::load: only this GPU knows it, after routing
  kLoad,      // Seen::load
  kTimes,     // Seen::timed: bounds what can be reached, can't be served
};

// "nothing", "batch", "GPU's count", "load", "times".
std::string_view sight_name(Sight sight);

struct PolicyOptions {
  MenuOptions menu;                                  // of the policies that serve a menu
  std::vector<std::string> terms = default_terms();  // of cost-model-extended
};

struct PolicyKind {
  std::string name;     // "cost-model"
  std::string summary;  // one line
  Sight sees = Sight::kLoad;
  Role learns_from = Role::kTrain;
  std::unique_ptr<Policy> (*make)(const PolicyOptions&) = nullptr;

  bool oracle() const { return sees == Sight::kTimes; }
};

// In the order tables show them.
const std::vector<PolicyKind>& policy_kinds();

// Those that learn from Lesson::others alone, so that a file by itself says nothing of them.
const std::vector<PolicyKind>& transfer_policy_kinds();

// What a kernel that is not ours runs by itself: only a file whose owner said so has any.
const PolicyKind& shipped_policy_kind();

// Throws Error naming those that exist; field and next: what the user was asked for, and can do.
const PolicyKind& policy_kind(std::string_view name, const std::string& field = "policy",
                              const std::string& next = "pick from these, or say `all`");

// Names that evaluation refers to.
inline constexpr std::string_view kFixedPolicy = "fixed";
inline constexpr std::string_view kShippedPolicy = "as-shipped";
inline constexpr std::string_view kVllmPolicy = "vllm-tuning";
inline constexpr std::string_view kMenuPolicy = "cost-model-menu";
inline constexpr std::string_view kMenusPolicy = "cost-model-menus";  // what a plan serves
inline constexpr std::string_view kCrossPolicy = "cost-model-cross";
inline constexpr std::string_view kOraclePolicy = "exhaustive";

}  // namespace ramp
