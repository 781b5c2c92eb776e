// SPDX-License-Identifier: Apache-2.0
// Algorithm 1 on the host, the twin of the GPU's select kernel: count this GPU's tokens per local
// expert, evaluate Eq. 3 for every menu entry, take the cheapest.  A pure function of (menu, ids),
// with the bits the GPU gets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "choice/cost_model.h"

namespace ramp {

// What became of the ids that arrived.  The five add up to their number, duplicates apart.
struct IdCounters {
  long long local = 0;    // counted into the load
  long long foreign = 0;  // experts of other GPUs: the expert map says -1
  long long padding = 0;  // id -1
  long long invalid = 0;  // below -1, or not below the number of experts
  long long duplicates =
      0;  // ids that their token already had; they count twice, as the router asked
};

struct Selection {
  std::vector<int> load;            // n_e of the local experts
  std::vector<float> predicted_us;  // one an entry
  int entry = 0;                    // index into the menu
  IdCounters ids;
};

// ids: [tokens, top_k] global expert ids.  expert_map[global id] is the local expert, or -1 on
// another GPU; its size is the number of experts of the layer.  Throws Error on an empty menu, ids
// that are no whole rows, or a map that names a local expert that does not exist; no id can make it
// throw.
Selection select(std::span<const std::int32_t> ids, int top_k,
                 std::span<const std::int32_t> expert_map, int local_experts,
                 std::span<const MenuEntry> menu);

// The same from ready counts.
Selection select(std::span<const int> load, std::span<const MenuEntry> menu);

}  // namespace ramp
