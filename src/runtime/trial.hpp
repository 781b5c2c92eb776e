// SPDX-License-Identifier: Apache-2.0
// Work to try a layer on, for checks, benches and the campaign alike: random weights made on the
// GPU, batches in device memory, the reference's answer from several host threads, and a wait that
// notices a kernel that hangs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/stream.hpp"
#include "kernels/bench/program.hpp"
#include "kernels/ffn/reference.hpp"
#include "runtime/layer.hpp"

namespace ramp {

// One GPU's weights in its own memory.
struct TrialWeights {
  LocalShape shape;
  gpu::Buffer w13, s13, w2, s2;

  DeviceWeights view() const { return {w13.ptr(), s13.ptr(), w2.ptr(), s2.ptr()}; }
};

// FP8 weights of the shape, scales apart.
long long weight_bytes(const LocalShape& shape);

// Spread like quantised weights, scaled so that a normal row gives gates of about 1 and outputs of
// about 0.5.  Ordered in the stream; the same bits for the same seed.
TrialWeights random_weights(const BenchProgram& bench, const LocalShape& shape, std::uint64_t seed,
                            gpu::CUstream stream);
// Waits for everything queued before.
HostWeights download(const TrialWeights& weights);

// bf16, standard normal.
std::vector<std::uint16_t> random_rows(int tokens, int hidden, std::uint64_t seed);
// Router weights of a token: positive, of sum 1.
std::vector<float> random_gates(int tokens, int top_k, std::uint64_t seed);

// Some rows of a matrix.
template <class T>
std::vector<T> rows_of(const std::vector<T>& matrix, const std::vector<int>& rows,
                       std::size_t width) {
  std::vector<T> some;
  for (const int r : rows) {
    const auto begin =
        matrix.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(r) * width);
    some.insert(some.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  return some;
}

// A batch on the GPU; null where the host's is empty.  hidden: bf16, or the e4m3 rows.
struct DeviceBatch {
  gpu::Buffer hidden, ids, gates;
};
DeviceBatch upload(const HostBatch& batch);

// reference_layer with its tokens dealt out to host threads; 0: one a core.
std::vector<double> reference_on_threads(const LocalShape& shape, const HostWeights& weights,
                                         const HostBatch& batch, int threads = 0);

// How far an output is from the reference: over all, and of the worst piece of 128 columns of one
// row, where a misplaced fragment shows that drowns in the whole.
struct OutputError {
  double all = 0;
  double worst_piece = 0;
};
OutputError output_error(const std::vector<double>& want, const std::vector<std::uint16_t>& got);

// A kernel that did not end.  Only the end of the process frees the GPU.
class Hung : public Error {
 public:
  using Error::Error;
};

// Waits for the stream; throws Hung after `seconds`, and what a faulting kernel gives.
void wait_for(const gpu::Stream& stream, double seconds, const std::string& what);

}  // namespace ramp
