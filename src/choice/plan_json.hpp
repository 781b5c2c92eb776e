// SPDX-License-Identifier: Apache-2.0
// What the plan's writer and reader agree on.  Only those two include it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ramp {

inline constexpr const char* kPlanFormat = "ramp-plan";
inline constexpr int kPlanVersion = 1;   // a reader refuses a newer one
inline constexpr int kPlanRevision = 1;  // a reader warns of a newer one: fields were added

// Limits of the file, checked while it is read and before anything of that size is allocated.
inline constexpr size_t kMaxPlanBytes = 1 << 20;
inline constexpr size_t kMaxDepth = 12;
inline constexpr size_t kMaxItems = 4096;  // of one array or object
inline constexpr size_t kMaxText = 4096;   // bytes of one string or key

// Hash of the JSON value without its "identity": keys sorted, no white space, shortest decimals.
// Re-indenting a plan keeps it, changing any value does not.  It finds accidents and edits; it is
// no signature.
std::string identity_of(nlohmann::json plan);

// JSON with the limits above, no key twice in an object, no control characters in texts.  Throws
// Error with the JSON pointer of what it refuses.
nlohmann::json parse_strict_json(std::string_view text);

}  // namespace ramp
