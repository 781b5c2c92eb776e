// SPDX-License-Identifier: Apache-2.0
#include "choice/fit.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "base/statistics.hpp"

namespace ramp {
namespace {

constexpr int kTerms = 4;
// Integer features divided by times: true dependence shows at 1e-15, true independence far above
// this.
constexpr double kRankTolerance = 1e-9;
// Supports that differ by less than rounding are one optimum; the smaller one is kept.
constexpr double kSameResidual = 1e-9;

// The problem reduced to 4 x 4 by one QR of the tall matrix: every support's least squares has the
// same answer on R as on the rows, up to the part of the right-hand side that no theta reaches.
struct Reduced {
  Eigen::Matrix4d r;
  Eigen::Vector4d rhs;
  double unreachable = 0;  // squared length
  Eigen::Vector4d scale;   // columns were divided by this
};

Reduced reduce(std::span<const Observation> observations) {
  const Eigen::Index rows = static_cast<Eigen::Index>(observations.size());
  Eigen::MatrixXd a(rows, kTerms);
  for (Eigen::Index i = 0; i < rows; ++i) {
    const Observation& o = observations[i];
    a.row(i) << 1, o.features.waves, o.features.tiles, o.features.active;
    a.row(i) /= o.us;
  }
  Reduced out;
  for (int t = 0; t < kTerms; ++t) {
    const double length = a.col(t).norm();
    out.scale[t] = length > 0 ? length : 1;
    a.col(t) /= out.scale[t];
  }
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(a);
  out.r = qr.matrixQR().topRows(kTerms).triangularView<Eigen::Upper>();
  const Eigen::VectorXd ones = qr.householderQ().transpose() * Eigen::VectorXd::Ones(rows);
  out.rhs = ones.head<kTerms>();
  out.unreachable = ones.tail(rows - kTerms).squaredNorm();
  return out;
}

// Least squares on the columns of a support; nothing when these are dependent or a coefficient
// comes out negative (another support then holds the optimum).
std::optional<Eigen::Vector4d> solve(const Reduced& p, unsigned support) {
  const int terms = std::popcount(support);
  Eigen::MatrixXd columns(kTerms, terms);
  for (int t = 0, at = 0; t < kTerms; ++t)
    if (support >> t & 1) columns.col(at++) = p.r.col(t);
  Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(columns);
  qr.setThreshold(kRankTolerance);
  if (qr.rank() < terms) return std::nullopt;
  const Eigen::VectorXd found = qr.solve(Eigen::VectorXd(p.rhs));
  Eigen::Vector4d x = Eigen::Vector4d::Zero();
  for (int t = 0, at = 0; t < kTerms; ++t)
    if (support >> t & 1) {
      if (!(found[at] >= 0)) return std::nullopt;
      x[t] = found[at++];
    }
  return x;
}

Eigen::Vector4d best_support(const Reduced& p) {
  unsigned order[1 << kTerms];
  for (unsigned s = 0; s < 1u << kTerms; ++s) order[s] = s;
  std::sort(std::begin(order), std::end(order), [](unsigned a, unsigned b) {
    return std::pair(std::popcount(a), a) < std::pair(std::popcount(b), b);
  });
  Eigen::Vector4d best = Eigen::Vector4d::Zero();
  double best_residual = p.rhs.squaredNorm() + p.unreachable;
  const double rounding = 1e-24 * best_residual;
  for (unsigned support : order) {
    if (support == 0) continue;
    const std::optional<Eigen::Vector4d> x = solve(p, support);
    if (!x) continue;
    const double residual = (p.r * *x - p.rhs).squaredNorm() + p.unreachable;
    if (residual < best_residual * (1 - kSameResidual) - rounding)
      best = *x, best_residual = residual;
  }
  return best;
}

void describe(const Reduced& p, Fit& fit) {
  const Eigen::JacobiSVD<Eigen::Matrix4d> svd(p.r);
  const Eigen::Vector4d s = svd.singularValues();
  for (int t = 0; t < kTerms; ++t) fit.rank += s[t] > kRankTolerance * s[0];
  fit.condition = s[0] / std::max(s[kTerms - 1], 1e-16 * s[0]);
}

}  // namespace

Fit fit_theta(std::span<const Observation> observations) {
  if (observations.size() < static_cast<size_t>(kMinObservations))
    throw Error("observations", std::to_string(observations.size()),
                fmt::format("{} or more", kMinObservations),
                "profile this configuration on more loads");
  for (const Observation& o : observations)
    if (!std::isfinite(o.us) || o.us <= 0)
      throw Error("observation.us", fmt::format("{}", o.us), "positive, finite times",
                  "profile again");
  const Reduced problem = reduce(observations);
  const Eigen::Vector4d theta = best_support(problem).cwiseQuotient(problem.scale);
  Fit fit;
  fit.theta = {static_cast<float>(theta[0]), static_cast<float>(theta[1]),
               static_cast<float>(theta[2]), static_cast<float>(theta[3])};
  fit.observations = static_cast<int>(observations.size());
  describe(problem, fit);
  std::vector<double> errors;
  double squares = 0;
  for (const Observation& o : observations) {
    errors.push_back(std::abs(predict_us(fit.theta, o.features) / o.us - 1.0));
    squares += errors.back() * errors.back();
  }
  fit.rms_error = std::sqrt(squares / errors.size());
  fit.median_error = median(errors);
  return fit;
}

std::vector<CandidateFit> fit_candidates(const Lesson& lesson) {
  std::vector<CandidateFit> fits(lesson.candidates.size());
  std::vector<Observation> observations;
  for (size_t c = 0; c < fits.size(); ++c) {
    observations.clear();
    for (size_t l = 0; l < lesson.loads.size(); ++l)
      if (is_time(lesson.us[c][l])) {
        const std::vector<int>& load = lesson.loads[l];
        observations.push_back(
            {features(lesson.candidates[c].grid, load.data(), static_cast<int>(load.size())),
             lesson.us[c][l]});
      }
    if (observations.size() < static_cast<size_t>(kMinObservations)) {
      fits[c].why_not = fmt::format("timed on {} training loads, {} are needed",
                                    observations.size(), kMinObservations);
      continue;
    }
    fits[c].fit = fit_theta(observations);
    fits[c].fitted = true;
  }
  return fits;
}

}  // namespace ramp
