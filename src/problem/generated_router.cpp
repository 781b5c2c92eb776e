// SPDX-License-Identifier: Apache-2.0
#include "problem/generated_router.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace ramp {
namespace {

constexpr int kBlocks = 8;  // of neighbouring experts, one a GPU of EP8

// Four lanes at a time: the compiler's vector types, on any machine.
constexpr int kLanes = 4;
using Floats = float __attribute__((vector_size(4 * kLanes)));
using Words = std::int32_t __attribute__((vector_size(4 * kLanes)));

// -ln u for u uniform in (0, 1), from 23 random bits: an exponential variate.  Series in
// (m-1)/(m+1), error below 1e-6; its own code because it is the inner loop and so that libraries
// can't change a trace.
inline Floats exponential_of(Words bits23) {
  const Floats u = (__builtin_convertvector(bits23, Floats) + 0.5f) * 0x1p-23f;
  const Words word = std::bit_cast<Words>(u);
  // In [1, 2); above the square root of 2 halved, so that the series is short.
  const Floats whole = std::bit_cast<Floats>((word & 0x7fffff) | 0x3f800000);
  const Words is_high = whole > 1.41421356f;
  const Floats m = is_high ? 0.5f * whole : whole;
  const Floats exponent =
      __builtin_convertvector((word >> 23) - 127 - is_high, Floats);  // true is -1
  const Floats t = (m - 1.0f) / (m + 1.0f), t2 = t * t;
  const Floats ln =
      2.0f * t * (1.0f + t2 * (0.33333333f + t2 * (0.2f + t2 * (0.14285714f + t2 * 0.11111111f))));
  return -(exponent * 0.69314718f + ln);
}

}  // namespace

GeneratedRouter::GeneratedRouter(const Model& model, const Calibration& calibration, int layers,
                                 int domains, bool uniform, std::uint64_t seed,
                                 std::uint64_t traffic)
    : model_(model),
      calibration_(calibration),
      layers_(layers),
      uniform_(uniform),
      random_(seed, 200),
      draws_(traffic, 201),
      padded_((model.shape.experts + kLanes - 1) / kLanes * kLanes),
      keys_(padded_) {
  popularity_ = popular();
  for (int d = 0; d < domains; ++d) domain_.push_back(popular());
  random_ = Random(traffic, 203);
  drift_.resize(size());
  inverse_.resize(size());
}

void GeneratedRouter::begin_session(int domain) {
  session_domain_ = domain;
  for (float& z : drift_) z = static_cast<float>(random_.normal());
}

void GeneratedRouter::begin_pass(int passes) {
  const double keep = std::exp(-passes / calibration_.drift_passes);
  const double fresh = std::sqrt(1 - keep * keep);
  const std::vector<float>& domain = domain_[session_domain_];
  for (std::size_t i = 0; i < size(); ++i) {
    drift_[i] = static_cast<float>(keep * drift_[i] + fresh * random_.normal());
    const double logit = calibration_.popularity * popularity_[i] +
                         calibration_.domain * domain[i] + calibration_.drift * drift_[i];
    inverse_[i] = uniform_ ? 1.0f : static_cast<float>(std::exp(-logit));
  }
}

std::vector<float> GeneratedRouter::new_request() {
  std::vector<float> taste(size(), 1.0f);
  if (!uniform_)
    for (float& t : taste)
      t = static_cast<float>(std::exp(-calibration_.request * random_.normal()));
  return taste;
}

void GeneratedRouter::draw(const std::vector<float>& taste, std::int16_t* out) {
  const int k = model_.shape.top_k;
  for (int layer = 0; layer < layers_; ++layer, out += k) {
    const float* shared = inverse_.data() + static_cast<std::size_t>(layer) * padded_;
    const float* own = taste.data() + static_cast<std::size_t>(layer) * padded_;
    for (std::size_t e = 0; e < padded_; e += kLanes) {
      const std::uint64_t low = draws_.next(), high = draws_.next();
      const Words bits = {
          static_cast<std::int32_t>(low >> 41), static_cast<std::int32_t>(low & 0x7fffff),
          static_cast<std::int32_t>(high >> 41), static_cast<std::int32_t>(high & 0x7fffff)};
      Floats a, b;
      std::memcpy(&a, shared + e, sizeof a);
      std::memcpy(&b, own + e, sizeof b);
      const Floats key = exponential_of(bits) * a * b;
      std::memcpy(keys_.data() + e, &key, sizeof key);
    }
    if (model_.groups > 1) drop_groups();
    take_smallest(k, out);
    std::sort(out, out + k);
  }
}

std::vector<float> GeneratedRouter::popular() {
  const int experts = model_.shape.experts;
  const double block = calibration_.block, tail = calibration_.tail;
  const bool blocks = experts % kBlocks == 0 && experts > kBlocks;
  const int width = blocks ? experts / kBlocks : experts;
  std::vector<float> out(size());
  std::vector<double> z(experts);
  for (int layer = 0; layer < layers_; ++layer) {
    for (double& value : z) {
      value = random_.normal();
      value = (value + tail * (value * value - 1) / 2) / std::sqrt(1 + tail * tail / 2);
    }
    for (int first = 0; blocks && block != 0 && first < experts; first += width) {
      const double common = block > 0 ? random_.normal() : 0;
      double mean = 0;
      for (int i = 0; i < width; ++i) mean += z[first + i] / width;
      for (int i = 0; i < width; ++i)
        z[first + i] = block > 0 ? std::sqrt(1 - block) * z[first + i] + std::sqrt(block) * common
                                 : z[first + i] + block * mean;
    }
    for (int e = 0; e < experts; ++e)
      out[static_cast<std::size_t>(layer) * padded_ + e] = static_cast<float>(z[e]);
  }
  return out;
}

// Group-limited routing: a group's worth is the sum of its two best logits, here the product of
// its two smallest keys.
void GeneratedRouter::drop_groups() {
  const int width = model_.shape.experts / model_.groups;
  std::vector<std::pair<float, int>> worth(model_.groups);
  for (int g = 0; g < model_.groups; ++g) {
    float best = INFINITY, second = INFINITY;
    for (int i = 0; i < width; ++i) {
      const float key = keys_[g * width + i];
      if (key < best) {
        second = best;
        best = key;
      } else if (key < second) {
        second = key;
      }
    }
    worth[g] = {width > 1 ? best * second : best, g};
  }
  std::sort(worth.begin(), worth.end());
  for (int g = model_.groups_kept; g < model_.groups; ++g)
    std::fill_n(keys_.begin() + worth[g].second * width, width, INFINITY);
}

void GeneratedRouter::take_smallest(int k, std::int16_t* out) {
  float best[64];
  int held = 0;
  for (int e = 0; e < model_.shape.experts; ++e) {
    const float key = keys_[e];
    if (held == k && key >= best[k - 1]) continue;
    int at = held < k ? held++ : k - 1;
    for (; at > 0 && best[at - 1] > key; --at) {
      best[at] = best[at - 1];
      out[at] = out[at - 1];
    }
    best[at] = key;
    out[at] = static_cast<std::int16_t>(e);
  }
}

}  // namespace ramp
