// SPDX-License-Identifier: Apache-2.0
#include "choice/nnls.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

namespace ramp {
namespace {

// Supports that differ by less than rounding are one optimum; the smaller one is kept.
constexpr double kSameResidual = 1e-9;
// Columns are counts divided by times: true dependence shows at 1e-15, true independence far above
// this.
constexpr double kRankTolerance = 1e-9;

// The tall problem reduced to a square one by one QR: every support's least squares has the same
// answer on R as on the rows, up to the part of the right-hand side that no x reaches.
struct Reduced {
  Eigen::MatrixXd r;
  Eigen::VectorXd rhs;
  double unreachable = 0;  // squared length
  Eigen::VectorXd scale;   // columns were divided by this
};

Reduced reduce(const NnlsProblem& problem) {
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Index columns = problem.columns, rows = static_cast<Eigen::Index>(problem.b.size());
  Eigen::MatrixXd a = Eigen::Map<const RowMajor>(problem.a.data(), rows, columns);
  const Eigen::VectorXd b = Eigen::Map<const Eigen::VectorXd>(problem.b.data(), rows);
  Reduced out;
  out.scale.resize(columns);
  for (Eigen::Index t = 0; t < columns; ++t) {
    const double length = a.col(t).norm();
    out.scale[t] = length > 0 ? length : 1;
    a.col(t) /= out.scale[t];
  }
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(a);
  out.r = qr.matrixQR().topRows(columns).triangularView<Eigen::Upper>();
  const Eigen::VectorXd turned = qr.householderQ().transpose() * b;
  out.rhs = turned.head(columns);
  out.unreachable = turned.tail(rows - columns).squaredNorm();
  return out;
}

// Least squares on the columns of a support; nothing when these are dependent or a coefficient
// comes out negative (another support then holds the optimum).
std::optional<Eigen::VectorXd> solve(const Reduced& p, unsigned support) {
  const int columns = static_cast<int>(p.r.cols()), terms = std::popcount(support);
  Eigen::MatrixXd picked(columns, terms);
  for (int t = 0, at = 0; t < columns; ++t)
    if (support >> t & 1) picked.col(at++) = p.r.col(t);
  Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(picked);
  qr.setThreshold(kRankTolerance);
  if (qr.rank() < terms) return std::nullopt;
  const Eigen::VectorXd found = qr.solve(p.rhs);
  Eigen::VectorXd x = Eigen::VectorXd::Zero(columns);
  for (int t = 0, at = 0; t < columns; ++t)
    if (support >> t & 1) {
      if (!(found[at] >= 0)) return std::nullopt;
      x[t] = found[at++];
    }
  return x;
}

Eigen::VectorXd best_support(const Reduced& p, double& best_residual) {
  const int columns = static_cast<int>(p.r.cols());
  std::vector<unsigned> order(1u << columns);
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [](unsigned a, unsigned b) {
    return std::pair(std::popcount(a), a) < std::pair(std::popcount(b), b);
  });
  Eigen::VectorXd best = Eigen::VectorXd::Zero(columns);
  best_residual = p.rhs.squaredNorm() + p.unreachable;
  const double rounding = 1e-24 * best_residual;
  for (unsigned support : order) {
    if (support == 0) continue;
    const std::optional<Eigen::VectorXd> x = solve(p, support);
    if (!x) continue;
    const double residual = (p.r * *x - p.rhs).squaredNorm() + p.unreachable;
    if (residual < best_residual * (1 - kSameResidual) - rounding)
      best = *x, best_residual = residual;
  }
  return best;
}

}  // namespace

NnlsSolution solve_nnls(const NnlsProblem& problem) {
  const Reduced reduced = reduce(problem);
  NnlsSolution out;
  const Eigen::VectorXd x = best_support(reduced, out.residual).cwiseQuotient(reduced.scale);
  out.x.assign(x.data(), x.data() + x.size());
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(reduced.r);
  const Eigen::VectorXd s = svd.singularValues();
  for (double value : s) out.rank += value > kRankTolerance * s[0];
  out.condition = s[0] / std::max(s[s.size() - 1], 1e-16 * s[0]);
  return out;
}

}  // namespace ramp
