// SPDX-License-Identifier: Apache-2.0
#include "runtime/layer_arguments.hpp"

#include "kernels/numeric.h"
#include "runtime/prefill.hpp"

namespace ramp {

LayerArguments shared_arguments(const LayerOptions& o, int first_expert, const int* expert_map,
                                const float* s13, const float* s2, int blocks, double stream_tbps) {
  LayerArguments arguments{};
  PrepareArgs& p = arguments.prepare;
  p.expert_map = expert_map;
  p.top_k = o.shape.top_k;
  p.hidden_size = o.shape.hidden;
  p.experts = o.experts;
  p.first_expert = first_expert;
  p.local_experts = o.shape.experts;
  // What the entries share decides which experts have blocks of their own.
  p.owned_experts = ffn_owned_experts(o.menu[0], o.shape.intermediate, blocks, o.shape.experts);
  p.together = ffn_tiles_together(o.menu[0]);
  p.menu.entries = static_cast<int>(o.menu.size());
  for (std::size_t i = 0; i < o.menu.size(); ++i)
    p.menu.entry[i] = {ffn_grid(o.menu[i], o.shape.hidden, o.shape.intermediate, blocks),
                       o.theta[i]};

  FfnArgs& f = arguments.ffn;
  f.scale13 = s13;
  f.scale2 = s2;
  f.hidden = o.shape.hidden;
  f.intermediate = o.shape.intermediate;
  f.owned_experts = p.owned_experts;
  f.down_parts = ffn_down_parts(o.shape.hidden, o.shape.intermediate, blocks);
  f.pace_ns = prefill_pace_ns(o.menu[0], o.shape.intermediate, p.owned_experts, stream_tbps);
  return arguments;
}

bool is_row_by_row(const ScaleStrides& strides, int hidden, int slots) {
  const long long groups = hidden / kScaleGroup;
  if (!strides.row && !strides.group && !strides.expert) return true;
  return strides.group == 1 && strides.row == groups &&
         (slots == 0 || strides.expert == slots * groups);
}

void place_in_workspace(LayerArguments& arguments, const Workspace& w, char* workspace) {
  PrepareArgs& p = arguments.prepare;
  FfnArgs& f = arguments.ffn;
  const auto at = [&]<class T>(T*& pointer, std::size_t offset) {
    pointer = reinterpret_cast<T*>(workspace + offset);
  };
  at(p.state, w.state), f.state = p.state;
  at(p.counts, w.counts), f.counts = p.counts;
  at(p.rows, w.rows), f.rows = p.rows;
  at(p.head, w.head), f.head = p.head;
  at(p.tile, w.tiles), f.tile = p.tile;
  at(p.run_counts, w.run_counts), at(p.places, w.places);
  at(p.rows_scale, w.rows_scale), f.rows_scale = p.rows_scale;
  at(p.rows_q, w.rows_q), f.rows_q = p.rows_q;
  at(p.ready, w.ready), f.ready = p.ready;  // these three: nobody looks where there are none
  at(f.middle_scale, w.middle_scale);
  at(f.middle_q, w.middle_q);
  at(p.position, w.position), at(f.slots, w.slots);  // set_mode looks after these
}

void set_rows(LayerArguments& arguments, const void* hidden, const float* scales,
              const ScaleStrides& strides, int slots) {
  PrepareArgs& p = arguments.prepare;
  FfnArgs& f = arguments.ffn;
  p.slots = slots;
  p.hidden = scales ? nullptr : static_cast<const unsigned short*>(hidden);
  p.scales = nullptr;
  if (!scales) return;
  f.rows_q = static_cast<const unsigned char*>(hidden);
  if (is_row_by_row(strides, p.hidden_size, slots))
    f.rows_scale = scales;
  else
    p.scales = scales, p.scale_strides = strides;
}

void set_mode(LayerArguments& arguments, const LayerMode& mode) {
  PrepareArgs& p = arguments.prepare;
  FfnArgs& f = arguments.ffn;
  if (!mode.ordered) f.slots = nullptr;
  if (!mode.ordered && !mode.row_a_pair) p.position = nullptr;
  f.most_rows = p.ids ? p.tokens * p.top_k : p.tokens;
  if (!mode.phased) return;
  p.row_a_pair = mode.row_a_pair;
  f.rows_grouped = mode.row_a_pair || p.ready_counts;
  if (mode.orders_scales) {
    const long long groups = p.hidden_size / kScaleGroup;
    p.scales = f.rows_scale, p.scale_strides = {p.slots * groups, groups, 1};
    f.rows_scale = p.rows_scale;
  }
  // Where `prepare` makes the scales of grouped rows, in the order that a tile's come by one copy.
  if (f.rows_grouped && f.rows_scale == p.rows_scale)
    p.scale_pitch = f.scale_pitch = column_pitch(f.most_rows);
  if (p.ready_counts) {
    // Rows that come grouped stay where they are: each has one result, and the output is its slot.
    p.position = nullptr, f.slots = f.output;
    if (p.slots) p.output = nullptr;  // those that nothing fills stay as they are
  } else if (mode.ordered) {
    p.output = nullptr;  // written whole, by `combine`
  }
  if (f.slots) f.down_parts = {};  // a row has one place for its result
}

bool runs_combine(const LayerArguments& arguments) {
  return arguments.prepare.ids && arguments.ffn.slots;
}

CombineArgs combine_arguments(const LayerArguments& arguments) {
  const PrepareArgs& p = arguments.prepare;
  return {arguments.ffn.slots, p.position, arguments.ffn.output, p.tokens, p.top_k, p.hidden_size};
}

}  // namespace ramp
