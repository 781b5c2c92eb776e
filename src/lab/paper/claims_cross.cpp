// SPDX-License-Identifier: Apache-2.0
// Claims about layers that were not measured: a model fitted on others, and the regions.
#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "choice/held_out_layer.hpp"
#include "choice/regions.hpp"
#include "lab/paper/claims.hpp"
#include "problem/catalog.hpp"

namespace ramp {

void answer_cross(const ClaimInput& input, ClaimAnswers& answers) {
  std::vector<const MeasuredSpace*> all;
  for (const MeasuredFile* file : input.files) all.push_back(&file->space);
  EvaluateOptions options;
  options.large_batch = input.request.large_batch;
  options.resamples = 1;
  std::vector<HeldOutLayer> layers;
  for (const MeasuredSpace* space : all) {
    if (other_models(*space, all).empty()) continue;
    try {
      layers.push_back(score_held_out(*space, all, options));
    } catch (const Error&) {
      continue;  // the others' configurations are of another kernel
    }
  }
  if (const double gap = mean_gap(layers, kCrossPolicy); std::isfinite(gap))
    answers["moved-model"] = {
        {gap},
        fmt::format("{} layers, each scored by a fit on the others; fitted on itself {:.2f} %; "
                    "ramp eval --cross",
                    layers.size(), 100 * mean_gap(layers, "cost-model"))};
  int right = 0, shapes = 0;
  for (const MeasuredFile* file : input.files) {
    if (file->base_layout() != "ep8") continue;
    const RegionScore score = score_regions(file->space, gpu_like(file->space.provenance.gpu));
    if (score.loads == 0) continue;
    ++shapes, right += score.hits >= 0.9 * score.loads;
  }
  if (shapes > 0)
    answers["regions"] = {
        {static_cast<double>(right)},
        fmt::format("of {} measured; class within 3 % on 90 % of the loads; ramp paper regions",
                    shapes)};
}

}  // namespace ramp
