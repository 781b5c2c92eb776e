// SPDX-License-Identifier: Apache-2.0
// Layers over the same weights, one a menu of a plan: a call runs the one of its size.  A captured
// graph has one size, so it holds one of them; workspaces serve all.
#pragma once

#include <utility>
#include <vector>

#include "runtime/layer.hpp"

namespace ramp {

class LayerBySize {
 public:
  // Ascending; the last with up_to 0.
  void add(int up_to, Layer layer) { layers_.push_back({up_to, std::move(layer)}); }

  const Layer& of(int tokens) const {
    for (const Sized& s : layers_)
      if (s.up_to == 0 || tokens <= s.up_to) return s.layer;
    return layers_.back().layer;
  }
  const Layer& largest() const { return layers_.back().layer; }

  // f(up_to, layer), small passes first.
  template <class F>
  void for_each(const F& f) const {
    for (const Sized& s : layers_) f(s.up_to, s.layer);
  }

 private:
  struct Sized {
    int up_to;
    Layer layer;
  };
  std::vector<Sized> layers_;
};

}  // namespace ramp
