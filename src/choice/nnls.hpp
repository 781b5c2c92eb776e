// SPDX-License-Identifier: Apache-2.0
// Non-negative least squares of a few columns (Lawson and Hanson's problem): minimise |a x - b|
// over x >= 0. So few that every support is tried: exact, deterministic, no iteration to tune.
#pragma once

#include <vector>

namespace ramp {

inline constexpr int kMaxNnlsColumns = 8;  // 256 supports

struct NnlsProblem {
  int columns = 0;
  std::vector<double> a;  // [rows][columns]
  std::vector<double> b;  // [rows], at least as many as columns
};

struct NnlsSolution {
  std::vector<double> x;
  double residual = 0;   // squared length of a x - b
  int rank = 0;          // of the columns; below their number some can't be told apart
  double condition = 0;  // of the columns scaled to one length; large where they are nearly alike
};

// Where columns are collinear the solution is still an optimum, with the fewest columns that reach
// it.
NnlsSolution solve_nnls(const NnlsProblem& problem);

}  // namespace ramp
