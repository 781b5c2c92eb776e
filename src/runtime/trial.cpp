// SPDX-License-Identifier: Apache-2.0
#include "runtime/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "kernels/numeric.h"
#include "problem/random.hpp"

namespace ramp {
namespace {

// Standard deviation of the random e4m3 values (kernels/bench/kernel.cuh).
constexpr double kWeightSpread = 112;

std::size_t size_of(long long values) { return static_cast<std::size_t>(values); }

}  // namespace

long long weight_bytes(const LocalShape& shape) {
  return shape.experts * expert_bytes(shape.hidden, shape.intermediate);
}

TrialWeights random_weights(const BenchProgram& bench, const LocalShape& shape, std::uint64_t seed,
                            gpu::CUstream stream) {
  const long long half = 1LL * shape.experts * shape.hidden * shape.intermediate;
  const long long blocks = half / (kScaleGroup * kScaleGroup);
  TrialWeights w{shape, gpu::Buffer(size_of(2 * half)), gpu::Buffer(size_of(2 * blocks) * 4),
                 gpu::Buffer(size_of(half)), gpu::Buffer(size_of(blocks) * 4)};
  bench.random_e4m3(w.w13.ptr(), size_of(2 * half), 4 * seed, stream);
  bench.random_e4m3(w.w2.ptr(), size_of(half), 4 * seed + 1, stream);
  bench.random_scales(w.s13.ptr(), size_of(2 * blocks),
                      static_cast<float>(1 / (kWeightSpread * std::sqrt(shape.hidden))),
                      4 * seed + 2, stream);
  bench.random_scales(w.s2.ptr(), size_of(blocks),
                      static_cast<float>(1 / (kWeightSpread * std::sqrt(shape.intermediate))),
                      4 * seed + 3, stream);
  return w;
}

HostWeights download(const TrialWeights& weights) {
  gpu::check(gpu::driver().cuCtxSynchronize(), "waiting for the weights");
  return {weights.w13.values<std::uint8_t>(), weights.s13.values<float>(),
          weights.w2.values<std::uint8_t>(), weights.s2.values<float>()};
}

std::vector<std::uint16_t> random_rows(int tokens, int hidden, std::uint64_t seed) {
  Random random(seed, 301);
  std::vector<std::uint16_t> rows(size_of(1LL * tokens * hidden));
  for (std::uint16_t& x : rows) x = to_bf16(static_cast<float>(random.normal()));
  return rows;
}

std::vector<float> random_gates(int tokens, int top_k, std::uint64_t seed) {
  Random random(seed, 302);
  std::vector<float> gates(size_of(1LL * tokens * top_k));
  for (std::size_t t = 0; t < size_of(tokens); ++t) {
    float sum = 0;
    for (int j = 0; j < top_k; ++j)
      sum += gates[t * size_of(top_k) + size_of(j)] = 0.1f + random.uniform_float();
    for (int j = 0; j < top_k; ++j) gates[t * size_of(top_k) + size_of(j)] /= sum;
  }
  return gates;
}

DeviceBatch upload(const HostBatch& batch) {
  return {batch.hidden_q.empty() ? gpu::Buffer::of(batch.hidden) : gpu::Buffer::of(batch.hidden_q),
          gpu::Buffer::of(batch.ids), gpu::Buffer::of(batch.gates)};
}

std::vector<double> reference_on_threads(const LocalShape& shape, const HostWeights& weights,
                                         const HostBatch& batch, int threads) {
  const auto d = size_of(shape.hidden), k = size_of(shape.top_k);
  const auto part = []<class T>(const std::vector<T>& all, std::size_t at, std::size_t width) {
    if (all.empty()) return std::vector<T>();
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at * width);
    return std::vector<T>(begin, begin + static_cast<std::ptrdiff_t>(width));
  };
  std::vector<double> out(size_of(batch.tokens) * d);
  std::atomic<int> next{0};
  const auto work = [&] {
    for (int t; (t = next.fetch_add(1)) < batch.tokens;) {
      const auto at = size_of(t);
      const HostBatch one{1,
                          part(batch.hidden, at, d),
                          part(batch.ids, at, k),
                          part(batch.gates, at, k),
                          batch.expert_map,
                          part(batch.hidden_q, at, d),
                          part(batch.hidden_scale, at, d / kScaleGroup)};
      const std::vector<double> row = reference_layer(shape, weights, one);
      std::copy(row.begin(), row.end(), out.begin() + static_cast<std::ptrdiff_t>(at * d));
    }
  };
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  threads = std::min(threads, std::max(1, batch.tokens));
  std::vector<std::jthread> pool;
  for (int i = 1; i < threads; ++i) pool.emplace_back(work);
  work();
  pool.clear();
  return out;
}

OutputError output_error(const std::vector<double>& want, const std::vector<std::uint16_t>& got) {
  OutputError error{relative_error(want, got), 0};
  if (!std::isfinite(error.all)) {
    error.worst_piece = error.all;
    return error;
  }
  for (std::size_t at = 0; at + kScaleGroup <= want.size(); at += kScaleGroup) {
    double difference = 0, norm = 0;
    for (std::size_t i = at; i < at + kScaleGroup; ++i) {
      if (std::isnan(want[i])) continue;
      const double off = from_bf16(got[i]) - want[i];
      difference += off * off, norm += want[i] * want[i];
    }
    if (difference == 0) continue;
    const double piece =
        norm == 0 ? std::numeric_limits<double>::infinity() : std::sqrt(difference / norm);
    error.worst_piece = std::max(error.worst_piece, piece);
  }
  return error;
}

void wait_for(const gpu::Stream& stream, double seconds, const std::string& what) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  while (!stream.idle()) {
    if (passed() > seconds)
      throw Hung(what, fmt::format("no end after {:.0f} s", seconds), "kernels that end",
                 "the process must end to free the GPU; leave this configuration out");
    // Short work is waited for at full speed.
    if (passed() > 0.002) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace ramp
