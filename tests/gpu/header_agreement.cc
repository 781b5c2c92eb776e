// SPDX-License-Identifier: Apache-2.0
// Compiled by DriverDeclarations.AgreeWithTheToolkitsHeader (driver_test.cpp) where there is a
// toolkit: our declarations of the driver and of NVRTC against cuda.h and nvrtc.h.
#include <cstddef>
#include <type_traits>

#include "gpu/driver.hpp"
#include "gpu/nvrtc.hpp"
#include "gpu/tensor_map.hpp"
#define __CUDA_API_VERSION_INTERNAL  // declares every version of a function under the name the
                                     // library exports
#include <cuda.h>
#include <nvrtc.h>

// Two signatures agree when they have as many parameters, each passed alike: integers and enums by
// width, all pointers as pointers.
template <class T>
struct Passed {
  using type = std::conditional_t<
      std::is_pointer_v<T>, void*,
      std::conditional_t<sizeof(T) == 8, long long, std::conditional_t<sizeof(T) == 4, int, char>>>;
};
template <class R, class... A>
struct Passed<R (*)(A...)> {
  using type = typename Passed<R>::type (*)(typename Passed<A>::type...);
};
template <class A, class B>
inline constexpr bool kAlike = std::is_same_v<typename Passed<A>::type, typename Passed<B>::type>;

#define CHECK_DRIVER(symbol, parameters) \
  static_assert(kAlike<decltype(ramp::gpu::Driver::symbol), decltype(&::symbol)>, #symbol);
RAMP_DRIVER_ENTRY_POINTS(CHECK_DRIVER)
RAMP_DRIVER_OPTIONAL_ENTRY_POINTS(CHECK_DRIVER)

#define CHECK_NVRTC(symbol, parameters) \
  static_assert(kAlike<decltype(ramp::gpu::Nvrtc::symbol), decltype(&::symbol)>, #symbol);
RAMP_NVRTC_ENTRY_POINTS(CHECK_NVRTC)

namespace cu = ramp::gpu::cu;
static_assert(cu::kSuccess == CUDA_SUCCESS && cu::kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(cu::kNoDevice == CUDA_ERROR_NO_DEVICE && cu::kNotReady == CUDA_ERROR_NOT_READY);
static_assert(cu::kInvalidImage == CUDA_ERROR_INVALID_IMAGE &&
              cu::kNoBinaryForGpu == CUDA_ERROR_NO_BINARY_FOR_GPU);

static_assert(cu::kDeviceClockRate == CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
static_assert(cu::kDeviceSms == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(cu::kDeviceMemoryClockRate == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
static_assert(cu::kDeviceMemoryBusWidth == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
static_assert(cu::kDeviceL2Bytes == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
static_assert(cu::kDeviceThreadsPerSm == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
static_assert(cu::kDeviceCcMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(cu::kDeviceCcMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(cu::kDeviceSmemPerSm == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
static_assert(cu::kDeviceRegistersPerSm == CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
static_assert(cu::kDeviceSmemPerBlockOptin ==
              CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);

static_assert(cu::kFunctionMaxThreads == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
static_assert(cu::kFunctionStaticSmem == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
static_assert(cu::kFunctionConstBytes == CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
static_assert(cu::kFunctionLocalBytes == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
static_assert(cu::kFunctionRegisters == CU_FUNC_ATTRIBUTE_NUM_REGS);
static_assert(cu::kFunctionMaxDynamicSmem == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);

static_assert(cu::kLaunchClusterDimension == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(cu::kLaunchProgrammaticStreamSerialization ==
              CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(cu::kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(cu::kCaptureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(cu::kCaptureStatusNone == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(cu::kGraphNodeKernel == CU_GRAPH_NODE_TYPE_KERNEL);

static_assert(cu::kTensorU8 == CU_TENSOR_MAP_DATA_TYPE_UINT8 &&
              cu::kTensorF32 == CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
static_assert(cu::kTensorBf16 == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
static_assert(cu::kTensorSwizzleNone == CU_TENSOR_MAP_SWIZZLE_NONE);
static_assert(cu::kTensorSwizzle128B == CU_TENSOR_MAP_SWIZZLE_128B);
static_assert(cu::kTensorPromotionNone == CU_TENSOR_MAP_L2_PROMOTION_NONE);
static_assert(cu::kTensorPromotion128B == CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
static_assert(cu::kTensorPromotion256B == CU_TENSOR_MAP_L2_PROMOTION_L2_256B);

using OurAttribute = ramp::gpu::CUlaunchAttribute;
static_assert(sizeof(OurAttribute) == sizeof(::CUlaunchAttribute));
static_assert(offsetof(OurAttribute, value) == offsetof(::CUlaunchAttribute, value));
static_assert(sizeof(OurAttribute::value) == sizeof(::CUlaunchAttributeValue));
using OurConfig = ramp::gpu::CUlaunchConfig;
static_assert(sizeof(OurConfig) == sizeof(::CUlaunchConfig));
static_assert(offsetof(OurConfig, grid_z) == offsetof(::CUlaunchConfig, gridDimZ));
static_assert(offsetof(OurConfig, block_x) == offsetof(::CUlaunchConfig, blockDimX));
static_assert(offsetof(OurConfig, smem_bytes) == offsetof(::CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(OurConfig, stream) == offsetof(::CUlaunchConfig, hStream));
static_assert(offsetof(OurConfig, attributes) == offsetof(::CUlaunchConfig, attrs));
static_assert(offsetof(OurConfig, num_attributes) == offsetof(::CUlaunchConfig, numAttrs));
static_assert(sizeof(ramp::gpu::TensorMap) == sizeof(::CUtensorMap));
static_assert(std::is_same_v<ramp::gpu::CUstream, ::CUstream>,
              "a stream of the runtime API is a stream of ours");
static_assert(sizeof(ramp::gpu::CUdeviceptr) == sizeof(::CUdeviceptr));
