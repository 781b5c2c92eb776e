// SPDX-License-Identifier: Apache-2.0
// Nearest load spectrum, after FlashInfer's distribution-aware tuning: a spectrum is the load
// sorted by size; each token count has exemplar spectra drawn from Dirichlet distributions of
// different concentration, and the exemplar with the largest cosine says what to run.  FlashInfer
// times each exemplar; here an exemplar takes what was fastest on the training loads that are
// nearest to it, and one that is nearest to none takes what its token count would, which stands for
// FlashInfer's guard.  So it learns from the same loads as everybody else, which favours it.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "choice/gpu_table.hpp"
#include "choice/policy.hpp"
#include "problem/random.hpp"

namespace ramp {
namespace {

// FlashInfer's seven factors, larger ones more concentrated.  Read here as the load of the expert
// that the average pair goes to, over the mean load: E x the expectation of the sum of squared
// shares, 1 for uniform routing and E where one expert gets everything.
constexpr std::array<double, 7> kFactors = {1.1, 1.3, 1.5, 1.7, 2.0, 2.5, 4.0};
constexpr int kDraws = 16;
constexpr int kMaxDrawnPairs = 1024;  // more tell nothing new of a spectrum's shape

using Spectrum = std::vector<double>;  // descending

// Gamma of any shape, scale 1, by rejection from a cubed normal (Marsaglia and Tsang, 2000); a
// shape below 1 is raised by 1 and brought back with a power of a uniform.
double gamma(double shape, Random& random) {
  if (shape < 1) return gamma(shape + 1, random) * std::pow(random.uniform(), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v))
      return d * v;
  }
}

// The mean spectrum of loads of so many pairs, whose experts' shares are Dirichlet.
Spectrum exemplar(int experts, int pairs, double factor, Random& random) {
  // E sum E[p^2] = E (a + 1) / (E a + 1) for concentration a of every expert, solved for a.
  const double shape = (experts - factor) / (experts * (factor - 1));
  Spectrum mean(experts, 0);
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<double> upto(experts);
    double sum = 0;
    for (double& share : upto) share = sum += gamma(shape, random);
    Spectrum load(experts, 0);
    for (int p = 0; p < std::min(pairs, kMaxDrawnPairs); ++p) {
      const auto at = std::upper_bound(upto.begin(), upto.end(), random.uniform() * sum);
      ++load[std::min<std::size_t>(at - upto.begin(), experts - 1)];
    }
    std::sort(load.begin(), load.end(), std::greater<>());
    for (int e = 0; e < experts; ++e) mean[e] += load[e];
  }
  const double length = std::sqrt(std::inner_product(mean.begin(), mean.end(), mean.begin(), 0.0));
  for (double& n : mean) n /= length;
  return mean;
}

class NearestSpectrum : public Policy {
 public:
  void learn(const Lesson& lesson) override {
    table_.set_rows(lesson);
    const int experts = lesson.shape.experts;
    Random random(1);
    std::vector<std::vector<Spectrum>> of_row;
    for (int pairs : table_.rows()) {
      std::vector<Spectrum>& exemplars = of_row.emplace_back();
      for (double factor : kFactors)  // one expert can't have more than all
        if (factor < experts) exemplars.push_back(exemplar(experts, pairs, factor, random));
      if (exemplars.empty()) exemplars.push_back(Spectrum(experts, 1 / std::sqrt(experts)));
    }
    const int cells = static_cast<int>(of_row[0].size());
    exemplar_bytes_ = of_row.size() * cells * experts * sizeof(float);
    table_.fill(lesson, cells, [of_row](int row, std::span<const int> load) {
      std::vector<int> sorted(load.begin(), load.end());
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      int best = 0;
      double most = -1;
      for (std::size_t x = 0; x < of_row[row].size(); ++x) {
        const Spectrum& other = of_row[row][x];
        double product = 0;  // the load's own length is the same for all
        for (std::size_t e = 0; e < std::min(sorted.size(), other.size()); ++e)
          product += sorted[e] * other[e];
        if (product > most) best = static_cast<int>(x), most = product;
      }
      return best;
    });
  }
  int choose(const Seen& seen) const override { return table_.lookup(seen.load); }
  std::size_t bytes() const override { return table_.bytes() + exemplar_bytes_; }

 private:
  GpuTable table_;
  std::size_t exemplar_bytes_ = 0;
};

}  // namespace

PolicyKind nearest_spectrum() {
  return {"nearest-spectrum", "nearest of 7 Dirichlet spectra a token count (FlashInfer's idea)",
          Sight::kLoad, Role::kTrain, [](const PolicyOptions&) -> std::unique_ptr<Policy> {
            return std::make_unique<NearestSpectrum>();
          }};
}

}  // namespace ramp
