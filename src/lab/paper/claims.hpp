// SPDX-License-Identifier: Apache-2.0
// What the paper states in its text, answered from measurements and traffic: a part a subject, each
// fills in what it can.  A claim that no part answers is not measured here.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lab/paper/request.hpp"

namespace ramp {

struct ClaimAnswer {
  Number ours;
  std::string how;  // where ours differs from the paper's; the number of layouts
};

using ClaimAnswers = std::map<std::string, ClaimAnswer>;  // by PaperClaim::id

// Contiguous EP layouts with held-out passes, evaluated.
struct ClaimInput {
  const PaperRequest& request;
  std::vector<const MeasuredFile*> files;
  std::vector<std::shared_ptr<const Evaluation>> evaluations;
};

void answer_choice(const ClaimInput& input, ClaimAnswers& answers);   // policies compared
void answer_menus(const ClaimInput& input, ClaimAnswers& answers);    // six, and three and twelve
void answer_moved(const ClaimInput& input, ClaimAnswers& answers);    // other EP degrees
void answer_cross(const ClaimInput& input, ClaimAnswers& answers);    // other models, regions
void answer_winners(const ClaimInput& input, ClaimAnswers& answers);  // who wins where
void answer_model(const ClaimInput& input, ClaimAnswers& answers);    // Eq. 3's errors and ranks
void answer_kernel(const ClaimInput& input, ClaimAnswers& answers);   // records of whole layers
void answer_traffic(const ClaimInput& input, ClaimAnswers& answers);  // no kernel needed

// From the least to the most of what is known; one value where there is one.
Number spanning(const std::vector<double>& values);

}  // namespace ramp
