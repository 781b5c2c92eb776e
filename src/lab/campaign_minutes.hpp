// SPDX-License-Identifier: Apache-2.0
// The budgets that a campaign has used up, as a note in its file: who asks for more minutes than
// these gets the difference, and who asks for as many is done.
#pragma once

#include <string>

namespace ramp {

inline constexpr const char* kMinutesNote = "minutes";

double minutes_of_note(const std::string& text);  // 0 for what is no number above 0

// Of a measurements file; 0 where it says nothing.  Throws Error for what is none.
double campaign_minutes(const std::string& path);

}  // namespace ramp
