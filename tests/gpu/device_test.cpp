// SPDX-License-Identifier: Apache-2.0
// What the wrappers do on a GPU; skipped where there is none.  The kernels are compiled by NVRTC
// or, on a GPU machine without it, the tests that need one are skipped too.
#include "gpu/device.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <stdexcept>

#include "gpu/clocks.hpp"
#include "gpu/compiler.hpp"
#include "gpu/module.hpp"
#include "gpu/nvrtc.hpp"
#include "gpu/stream.hpp"
#include "gpu/tensor_map.hpp"

namespace ramp::gpu {
namespace {

constexpr char kSource[] = R"(
__device__ int counter;
__constant__ int table[4];
extern "C" __global__ void add(int* p, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] += value;
}
// Waits for its predecessor in programmatic launch, then doubles what that one wrote.
extern "C" __global__ void twice(int* p, int n) {
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] *= 2;
}
extern "C" __global__ void __launch_bounds__(256) large(int* p) {
  extern __shared__ int s[];
  s[threadIdx.x * 200] = threadIdx.x;
  __syncthreads();
  p[threadIdx.x] = s[(255 - threadIdx.x) * 200];
}
extern "C" __global__ void cluster_ranks(int* p) {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) p[blockIdx.x] = rank;
}
struct alignas(64) Map { unsigned long long opaque[16]; };
// Copies one box of a tensor map to p.
extern "C" __global__ void box(const __grid_constant__ Map map, int x, int y, unsigned char* p, int bytes) {
  __shared__ alignas(1024) unsigned char tile[8192];
  __shared__ alignas(8) unsigned long long barrier;
  const unsigned bar = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
                     "r"(static_cast<unsigned>(__cvta_generic_to_shared(tile))), "l"(&map), "r"(x), "r"(y), "r"(bar) : "memory");
    unsigned done = 0;
    while (!done)
      asm volatile("{ .reg .pred q; mbarrier.try_wait.parity.shared::cta.b64 q, [%1], 0; selp.u32 %0, 1, 0, q; }"
                   : "=r"(done) : "r"(bar) : "memory");
  }
  __syncthreads();
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) p[i] = tile[i];
}
)";

// Without a GPU the code below never runs, but it must not rot either.
TEST(GpuCodeSource, CompilesWithoutAGpu) {
  std::string why;
  if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  const Cubin cubin = compile({"device_test", kSource});
  EXPECT_EQ(cubin.kernels.size(), 5u) << cubin.log;
  EXPECT_EQ(cubin.defects(), "");
}

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!driver_available(&why)) GTEST_SKIP() << why;
    context_ = std::make_unique<Context>(0);
  }
  std::unique_ptr<Context> context_;
};

class GpuCode : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (IsSkipped()) return;
    std::string why;
    if (!nvrtc_available(&why)) GTEST_SKIP() << why;
    if (!context_->info().runs_sm_90a()) GTEST_SKIP() << "no GPU of compute capability 9.0";
    static const Cubin cubin = compile({"device_test", kSource});
    module_ = std::make_unique<Module>(cubin.bytes, "device_test");
  }
  void TearDown() override { module_.reset(); }
  std::unique_ptr<Module> module_;
};

TEST_F(Gpu, SaysWhatItIs) {
  const DeviceInfo& info = context_->info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_EQ(info.uuid.size(), 40u) << info.uuid;
  EXPECT_GE(info.cc_major, 5);
  EXPECT_GT(info.sms, 0);
  EXPECT_GT(info.memory_bytes, 1 << 30);
  EXPECT_GE(info.smem_per_block_optin, 48 << 10);
  EXPECT_THROW(device_info(device_count()), Error);
  EXPECT_THROW(device_info(-1), Error);
}

TEST_F(Gpu, ClocksAreThoseOfTheSameGpu) {
  const Clocks clocks(context_->info().uuid);
  if (!clocks.available()) GTEST_SKIP() << clocks.why_not();
  const auto sample = clocks.sample();
  ASSERT_TRUE(sample);
  EXPECT_GT(sample->sm_mhz, 0);
  EXPECT_LE(sample->sm_mhz, clocks.max_sm_mhz());
  EXPECT_GT(sample->temperature_c, 0);
}

TEST_F(Gpu, MemoryKeepsWhatIsPutThere) {
  std::vector<int> values(100'000);
  std::iota(values.begin(), values.end(), 7);
  Buffer buffer = Buffer::of(values);
  EXPECT_EQ(buffer.values<int>(), values);
  const int patch[2] = {-1, -2};
  buffer.upload(patch, sizeof patch, 40);
  EXPECT_EQ(buffer.values<int>()[10], -1);
  EXPECT_EQ(buffer.values<int>()[11], -2);
  EXPECT_EQ(buffer.values<int>()[12], 19);
  buffer.fill(0xff);
  EXPECT_EQ(buffer.values<int>(), std::vector<int>(values.size(), -1));
  EXPECT_THROW(buffer.upload(patch, 8, buffer.bytes() - 7), Error);
  EXPECT_THROW(buffer.download(nullptr, ~std::size_t{0}, 8), Error);
  Buffer moved = std::move(buffer);
  EXPECT_EQ(moved.values<int>().size(), values.size());
}

TEST_F(Gpu, AskingForTooMuchMemoryIsAnErrorThatPasses) {
  try {
    Buffer huge(std::size_t{1} << 50);
    FAIL() << "a petabyte";
  } catch (const CudaError& e) {
    EXPECT_EQ(e.code, cu::kOutOfMemory);
  }
  EXPECT_NO_THROW(Buffer(1 << 20));
}

TEST_F(GpuCode, KernelsRunAndEventsTimeThem) {
  Stream stream;
  Buffer buffer = Buffer::of(std::vector<int>(1000, 1));
  const Kernel add = module_->kernel("add");
  Event start, end;
  start.record(stream);
  for (int i = 0; i < 10; ++i)
    add({.grid = {8, 1, 1}, .block = {128, 1, 1}, .stream = stream}, buffer.ptr(), 1000, 5);
  end.record(stream);
  EXPECT_GT(elapsed_us(start, end), 0);
  EXPECT_TRUE(stream.idle());
  EXPECT_EQ(buffer.values<int>(), std::vector<int>(1000, 51));
}

TEST_F(GpuCode, AttributesAndOccupancyAreTheKernels) {
  Kernel large = module_->kernel("large");
  EXPECT_EQ(large.attributes().max_threads, 256);
  EXPECT_GT(large.attributes().registers, 0);
  const int bytes = 200 << 10;
  large.set_max_dynamic_smem(bytes);
  EXPECT_EQ(large.attributes().max_dynamic_smem, bytes);
  EXPECT_EQ(large.occupancy(256, bytes), 1);
  Buffer buffer(256 * 4);
  large({.block = {256, 1, 1}, .smem = 200 << 10}, buffer.ptr());
  context_->synchronize();
  EXPECT_EQ(buffer.values<int>()[0], 255);
  EXPECT_THROW(large.set_max_dynamic_smem(1 << 20), CudaError);
}

TEST_F(GpuCode, VariablesHaveAddresses) {
  EXPECT_EQ(module_->symbol("table").bytes, 16u);
  EXPECT_NE(module_->symbol("counter").ptr, 0u);
  EXPECT_THROW(module_->symbol("nothing"), CudaError);
  EXPECT_THROW(module_->kernel("nothing"), CudaError);
}

TEST_F(GpuCode, ProgrammaticLaunchesInAGraphKeepTheirOrder) {
  Stream stream;
  Buffer buffer = Buffer::of(std::vector<int>(1000, 0));
  const Kernel add = module_->kernel("add"), twice = module_->kernel("twice");
  const Graph graph = Graph::capture(stream, [&] {
    EXPECT_TRUE(is_capturing(stream));
    add({.grid = {8, 1, 1}, .block = {128, 1, 1}, .stream = stream}, buffer.ptr(), 1000, 3);
    twice({.grid = {8, 1, 1}, .block = {128, 1, 1}, .stream = stream, .programmatic = true},
          buffer.ptr(), 1000);
    twice({.grid = {8, 1, 1}, .block = {128, 1, 1}, .stream = stream, .programmatic = true},
          buffer.ptr(), 1000);
  });
  EXPECT_FALSE(is_capturing(stream));
  EXPECT_EQ(graph.kernel_nodes(), 3u);
  EXPECT_EQ(buffer.values<int>()[0], 0) << "a capture runs nothing";
  graph.upload(stream);
  graph.launch(stream);
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(buffer.values<int>(), std::vector<int>(1000, (3 * 4 + 3) * 4));
}

TEST_F(GpuCode, ACaptureThatThrowsLeavesTheStreamUsable) {
  Stream stream;
  Buffer buffer = Buffer::of(std::vector<int>(10, 0));
  EXPECT_THROW(Graph::capture(stream, [] { throw std::runtime_error("stop"); }),
               std::runtime_error);
  EXPECT_FALSE(is_capturing(stream));
  module_->kernel("add")({.block = {32, 1, 1}, .stream = stream}, buffer.ptr(), 10, 1);
  stream.synchronize();
  EXPECT_EQ(buffer.values<int>(), std::vector<int>(10, 1));
}

TEST_F(GpuCode, ClustersAreAsWideAsAsked) {
  Buffer ranks(8 * 4);
  module_->kernel("cluster_ranks")({.grid = {8, 1, 1}, .block = {32, 1, 1}, .cluster = 4},
                                   ranks.ptr());
  context_->synchronize();
  EXPECT_EQ(ranks.values<int>(), (std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3}));
}

TEST_F(GpuCode, OfBlocksThatFillAnSmNoMoreClustersAreResidentThanSmsMake) {
  const Kernel kernel = module_->kernel("cluster_ranks");
  const int sms = context_->info().sms, alone = kernel.occupancy(1024, 0);
  for (const int cluster : {1, 2, 4, 8}) {
    const int resident =
        kernel.resident_clusters({.grid = {8, 1, 1}, .block = {1024, 1, 1}, .cluster = cluster});
    EXPECT_GE(resident, 1) << cluster;
    EXPECT_LE(resident * cluster, sms * alone) << cluster;
  }
}

TEST_F(GpuCode, ALaunchThatCannotBeSaysWithWhat) {
  try {
    module_->kernel("add")({.block = {4096, 1, 1}}, CUdeviceptr{0}, 0, 0);
    FAIL() << "4,096 threads a block";
  } catch (const CudaError& e) {
    EXPECT_NE(std::string(e.what()).find("add"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("4096"), std::string::npos);
  }
}

TEST_F(GpuCode, TensorMapsReadBoxesAndZerosOutside) {
  // 60 rows of 256 bytes; the box of 64 rows begins at row 8, so its last 12 rows lie outside.
  std::vector<unsigned char> tensor(60 * 256);
  for (std::size_t i = 0; i < tensor.size(); ++i)
    tensor[i] = static_cast<unsigned char>(1 + i % 251);
  const Buffer source = Buffer::of(tensor);
  Buffer target(64 * 128);
  TensorMapSpec spec;
  spec.rank = 2;
  spec.address = source.ptr();
  spec.dims = {256, 60};
  spec.strides_bytes = {256};
  spec.box = {128, 64};
  spec.promotion = L2Promotion::k256B;
  const TensorMap map = make_tensor_map(spec, "rows");
  module_->kernel("box")({.block = {128, 1, 1}}, map, 128, 8, target.ptr(), 64 * 128);
  context_->synchronize();
  const std::vector<unsigned char> got = target.values<unsigned char>();
  for (int row = 0; row < 64; ++row)
    for (int column = 0; column < 128; ++column)
      ASSERT_EQ(got[row * 128 + column], row + 8 < 60 ? tensor[(row + 8) * 256 + 128 + column] : 0)
          << row << " " << column;
}

TEST_F(GpuCode, ASwizzledBoxIsPermutedInSixteenByteChunks) {
  std::vector<unsigned char> tensor(16 * 128);
  for (std::size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<unsigned char>(i / 16);
  const Buffer source = Buffer::of(tensor);
  Buffer target(16 * 128);
  TensorMapSpec spec;
  spec.rank = 2;
  spec.address = source.ptr();
  spec.dims = {128, 16};
  spec.strides_bytes = {128};
  spec.box = {128, 16};
  spec.swizzle = Swizzle::k128B;
  module_->kernel("box")({.block = {128, 1, 1}}, make_tensor_map(spec, "rows"), 0, 0, target.ptr(),
                         16 * 128);
  context_->synchronize();
  const std::vector<unsigned char> got = target.values<unsigned char>();
  for (int row = 0; row < 16; ++row)
    for (int chunk = 0; chunk < 8; ++chunk)
      ASSERT_EQ(got[row * 128 + chunk * 16], row * 8 + (chunk ^ (row % 8))) << row << " " << chunk;
}

}  // namespace
}  // namespace ramp::gpu
