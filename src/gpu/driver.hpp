// SPDX-License-Identifier: Apache-2.0
// The CUDA driver, opened when it is first needed and declared by ourselves: no CUDA header is
// included, nothing is linked.  The handle types are the driver's own struct tags, so a CUstream of
// another library is a CUstream here. tests/gpu/header_agreement.cc holds these declarations
// against the toolkit's cuda.h where there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.hpp"

struct CUctx_st;
struct CUevent_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUgraphNode_st;
struct CUmod_st;
struct CUstream_st;

namespace ramp::gpu {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = std::uint64_t;
using CUcontext = CUctx_st*;
using CUevent = CUevent_st*;
using CUfunction = CUfunc_st*;
using CUgraph = CUgraph_st*;
using CUgraphExec = CUgraphExec_st*;
using CUgraphNode = CUgraphNode_st*;
using CUmodule = CUmod_st*;
using CUstream = CUstream_st*;

// Numbers of cuda.h that we use, named after its enumerators.
namespace cu {
inline constexpr int kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100, kInvalidImage = 200,
                     kNoBinaryForGpu = 209, kNotReady = 600;

inline constexpr int kDeviceClockRate = 13, kDeviceSms = 16, kDeviceMemoryClockRate = 36,
                     kDeviceMemoryBusWidth = 37, kDeviceL2Bytes = 38, kDeviceThreadsPerSm = 39,
                     kDeviceCcMajor = 75, kDeviceCcMinor = 76, kDeviceSmemPerSm = 81,
                     kDeviceRegistersPerSm = 82, kDeviceSmemPerBlockOptin = 97;

inline constexpr int kFunctionMaxThreads = 0, kFunctionStaticSmem = 1, kFunctionConstBytes = 2,
                     kFunctionLocalBytes = 3, kFunctionRegisters = 4, kFunctionMaxDynamicSmem = 8;

inline constexpr int kLaunchClusterDimension = 4, kLaunchProgrammaticStreamSerialization = 6;

inline constexpr int kStreamNonBlocking = 1, kCaptureThreadLocal = 1, kCaptureStatusNone = 0,
                     kGraphNodeKernel = 0;

inline constexpr int kTensorU8 = 0, kTensorF32 = 7, kTensorBf16 = 9;
inline constexpr int kTensorSwizzleNone = 0, kTensorSwizzle128B = 3;
inline constexpr int kTensorPromotionNone = 0, kTensorPromotion128B = 2, kTensorPromotion256B = 3;
}  // namespace cu

struct CUlaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    int flag;
    struct {
      unsigned x, y, z;
    } cluster;
  } value;
};

struct CUlaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned smem_bytes;
  CUstream stream;
  CUlaunchAttribute* attributes;
  unsigned num_attributes;
};

// X(symbol, parameters): every entry point, under the name that the library exports.
#define RAMP_DRIVER_ENTRY_POINTS(X)                                                    \
  X(cuInit, (unsigned))                                                                \
  X(cuDriverGetVersion, (int*))                                                        \
  X(cuGetErrorName, (CUresult, const char**))                                          \
  X(cuGetErrorString, (CUresult, const char**))                                        \
  X(cuDeviceGetCount, (int*))                                                          \
  X(cuDeviceGet, (CUdevice*, int))                                                     \
  X(cuDeviceGetName, (char*, int, CUdevice))                                           \
  X(cuDeviceGetUuid_v2, (void*, CUdevice))                                             \
  X(cuDeviceTotalMem_v2, (std::size_t*, CUdevice))                                     \
  X(cuDeviceGetAttribute, (int*, int, CUdevice))                                       \
  X(cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice))                                  \
  X(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                          \
  X(cuCtxGetCurrent, (CUcontext*))                                                     \
  X(cuCtxSetCurrent, (CUcontext))                                                      \
  X(cuCtxPushCurrent_v2, (CUcontext))                                                  \
  X(cuCtxPopCurrent_v2, (CUcontext*))                                                  \
  X(cuCtxGetDevice, (CUdevice*))                                                       \
  X(cuCtxSynchronize, ())                                                              \
  X(cuMemGetInfo_v2, (std::size_t*, std::size_t*))                                     \
  X(cuMemAlloc_v2, (CUdeviceptr*, std::size_t))                                        \
  X(cuMemFree_v2, (CUdeviceptr))                                                       \
  X(cuMemHostAlloc, (void**, std::size_t, unsigned))                                   \
  X(cuMemFreeHost, (void*))                                                            \
  X(cuMemcpyHtoD_v2, (CUdeviceptr, const void*, std::size_t))                          \
  X(cuMemcpyDtoH_v2, (void*, CUdeviceptr, std::size_t))                                \
  X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void*, std::size_t, CUstream))           \
  X(cuMemcpyDtoHAsync_v2, (void*, CUdeviceptr, std::size_t, CUstream))                 \
  X(cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, std::size_t, CUstream))           \
  X(cuMemsetD8Async, (CUdeviceptr, unsigned char, std::size_t, CUstream))              \
  X(cuStreamCreate, (CUstream*, unsigned))                                             \
  X(cuStreamDestroy_v2, (CUstream))                                                    \
  X(cuStreamSynchronize, (CUstream))                                                   \
  X(cuStreamQuery, (CUstream))                                                         \
  X(cuStreamWaitEvent, (CUstream, CUevent, unsigned))                                  \
  X(cuStreamBeginCapture_v2, (CUstream, int))                                          \
  X(cuStreamEndCapture, (CUstream, CUgraph*))                                          \
  X(cuStreamIsCapturing, (CUstream, int*))                                             \
  X(cuEventCreate, (CUevent*, unsigned))                                               \
  X(cuEventDestroy_v2, (CUevent))                                                      \
  X(cuEventRecord, (CUevent, CUstream))                                                \
  X(cuEventSynchronize, (CUevent))                                                     \
  X(cuEventElapsedTime, (float*, CUevent, CUevent))                                    \
  X(cuGraphInstantiateWithFlags, (CUgraphExec*, CUgraph, unsigned long long))          \
  X(cuGraphUpload, (CUgraphExec, CUstream))                                            \
  X(cuGraphLaunch, (CUgraphExec, CUstream))                                            \
  X(cuGraphExecDestroy, (CUgraphExec))                                                 \
  X(cuGraphDestroy, (CUgraph))                                                         \
  X(cuGraphGetNodes, (CUgraph, CUgraphNode*, std::size_t*))                            \
  X(cuGraphNodeGetType, (CUgraphNode, int*))                                           \
  X(cuModuleLoadData, (CUmodule*, const void*))                                        \
  X(cuModuleUnload, (CUmodule))                                                        \
  X(cuModuleGetFunction, (CUfunction*, CUmodule, const char*))                         \
  X(cuModuleGetGlobal_v2, (CUdeviceptr*, std::size_t*, CUmodule, const char*))         \
  X(cuFuncGetAttribute, (int*, int, CUfunction))                                       \
  X(cuFuncSetAttribute, (CUfunction, int, int))                                        \
  X(cuLaunchKernelEx, (const CUlaunchConfig*, CUfunction, void**, void**))             \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int*, CUfunction, int, std::size_t)) \
  X(cuOccupancyMaxActiveClusters, (int*, CUfunction, const CUlaunchConfig*))           \
  X(cuTensorMapEncodeTiled,                                                            \
    (void*, int, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*,     \
     const std::uint32_t*, const std::uint32_t*, int, int, int, int))

// Of newer drivers; nullptr where the driver doesn't have them.
#define RAMP_DRIVER_OPTIONAL_ENTRY_POINTS(X) X(cuFuncLoad, (CUfunction))

// The table of entry points.
struct Driver {
#define RAMP_DECLARE(symbol, parameters) CUresult(*symbol) parameters = nullptr;
  RAMP_DRIVER_ENTRY_POINTS(RAMP_DECLARE)
  RAMP_DRIVER_OPTIONAL_ENTRY_POINTS(RAMP_DECLARE)
#undef RAMP_DECLARE
  std::string path;  // the file that was opened
  int version = 0;   // 13000 = CUDA 13.0, the newest that this driver can run
};

// The driver, initialised.  Throws Error, the same one each time, when there is none or it has no
// GPU.
const Driver& driver();

// Whether driver() would succeed; `why` gets the reason when it wouldn't.
bool driver_available(std::string* why = nullptr);

// An error code of the driver.
class CudaError : public Error {
 public:
  CudaError(CUresult result, const std::string& text) : Error(text), code(result) {}
  CUresult code;
};

// Throws CudaError with the driver's name and text for `result`; `what` says what was being done.
void check(CUresult result, const char* what);
inline void check(CUresult result, const std::string& what) { check(result, what.c_str()); }

// "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered".
std::string result_text(CUresult result);

// After such a result the context can't be used any more: only a new process mends it.
bool context_is_lost(CUresult result);

}  // namespace ramp::gpu
