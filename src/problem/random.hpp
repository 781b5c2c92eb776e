// SPDX-License-Identifier: Apache-2.0
// One small generator for everything that is drawn at random here: same seed, same traffic, on
// every machine.  The standard library's distributions are not used because their results differ
// between implementations.
#pragma once

#include <cmath>
#include <cstdint>

namespace ramp {

// xoshiro256++ seeded by splitmix64.  `stream` separates independent uses of one seed.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) {
    std::uint64_t x = seed + 0x9e3779b97f4a7c15ull * (2 * stream + 1);
    for (std::uint64_t& word : state_) {
      x += 0x9e3779b97f4a7c15ull;
      std::uint64_t z = x;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
      word = z ^ (z >> 31);
    }
  }

  std::uint64_t next() {
    const std::uint64_t result = rotl(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotl(state_[3], 45);
    return result;
  }

  // [0, n), n > 0; the bias of the multiplication is below 2^-32 for every n used here.
  std::uint64_t below(std::uint64_t n) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
  }

  // (0, 1): never 0, so that its logarithm is finite.
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }
  float uniform_float() { return (static_cast<float>(next() >> 41) + 0.5f) * 0x1p-23f; }

  // Standard normal (Box-Muller, both halves used).
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    const double angle = 6.283185307179586 * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

  // Gamma of shape 2, mean `mean`: the sum of two exponentials.
  double gamma2(double mean) { return -0.5 * mean * (std::log(uniform()) + std::log(uniform())); }

  template <class Container>
  void shuffle(Container& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      const std::size_t j = below(i);
      auto tmp = items[i - 1];
      items[i - 1] = items[j];
      items[j] = tmp;
    }
  }

 private:
  static std::uint64_t rotl(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

  std::uint64_t state_[4];
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace ramp
