// SPDX-License-Identifier: Apache-2.0
#include "gpu/device.hpp"

#include <utility>

namespace ramp::gpu {
namespace {

int attribute(CUdevice device, int which) {
  int value = 0;
  check(driver().cuDeviceGetAttribute(&value, which, device), "reading a device attribute");
  return value;
}

CUdevice device_of(int ordinal) {
  const int count = device_count();
  if (ordinal < 0 || ordinal >= count)
    throw Error("GPU ordinal", std::to_string(ordinal),
                count ? fmt::format("0..{}", count - 1) : "none: the driver sees no GPU",
                "check CUDA_VISIBLE_DEVICES and `ramp doctor`");
  CUdevice device = 0;
  check(driver().cuDeviceGet(&device, ordinal), "opening the GPU");
  return device;
}

std::string uuid_text(const unsigned char (&bytes)[16]) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

// The blocking copies and fills of the driver may return before the data has arrived, ordered in
// the null stream only; our streams don't wait for that one, so it is waited for here.
void settle() { check(driver().cuStreamSynchronize(nullptr), "waiting for a copy"); }

}  // namespace

int device_count() {
  int count = 0;
  check(driver().cuDeviceGetCount(&count), "counting GPUs");
  return count;
}

DeviceInfo device_info(int ordinal) {
  const CUdevice device = device_of(ordinal);
  DeviceInfo info;
  info.ordinal = ordinal;
  char name[256] = {};
  check(driver().cuDeviceGetName(name, sizeof name, device), "reading the GPU's name");
  info.name = name;
  unsigned char uuid[16] = {};
  check(driver().cuDeviceGetUuid_v2(uuid, device), "reading the GPU's UUID");
  info.uuid = uuid_text(uuid);
  std::size_t memory = 0;
  check(driver().cuDeviceTotalMem_v2(&memory, device), "reading the GPU's memory size");
  info.memory_bytes = static_cast<std::int64_t>(memory);
  info.cc_major = attribute(device, cu::kDeviceCcMajor);
  info.cc_minor = attribute(device, cu::kDeviceCcMinor);
  info.sms = attribute(device, cu::kDeviceSms);
  info.smem_per_block_optin = attribute(device, cu::kDeviceSmemPerBlockOptin);
  info.smem_per_sm = attribute(device, cu::kDeviceSmemPerSm);
  info.registers_per_sm = attribute(device, cu::kDeviceRegistersPerSm);
  info.threads_per_sm = attribute(device, cu::kDeviceThreadsPerSm);
  info.l2_bytes = attribute(device, cu::kDeviceL2Bytes);
  info.clock_mhz = attribute(device, cu::kDeviceClockRate) / 1000;
  info.memory_clock_mhz = attribute(device, cu::kDeviceMemoryClockRate) / 1000;
  info.memory_bus_bits = attribute(device, cu::kDeviceMemoryBusWidth);
  info.driver_version = driver().version;
  return info;
}

Context::Context(int ordinal) : info_(device_info(ordinal)) {
  check(driver().cuDevicePrimaryCtxRetain(&handle_, device_of(ordinal)),
        "retaining the GPU's context");
  make_current();
}

Context::~Context() {
  if (!handle_) return;
  CUdevice device = 0;
  if (driver().cuDeviceGet(&device, info_.ordinal) == cu::kSuccess)
    driver().cuDevicePrimaryCtxRelease_v2(device);
}

Context::Context(Context&& other) noexcept
    : info_(std::move(other.info_)), handle_(std::exchange(other.handle_, nullptr)) {}

void Context::make_current() const {
  check(driver().cuCtxSetCurrent(handle_), "making a context current");
}

void Context::synchronize() const {
  make_current();
  check(driver().cuCtxSynchronize(), "waiting for the GPU");
}

ContextScope::ContextScope(CUcontext context) {
  check(driver().cuCtxPushCurrent_v2(context), "making a context current");
}

ContextScope::~ContextScope() {
  CUcontext popped = nullptr;
  driver().cuCtxPopCurrent_v2(&popped);
}

Buffer::Buffer(std::size_t bytes) {
  if (bytes == 0) return;
  check(driver().cuMemAlloc_v2(&ptr_, bytes), fmt::format("allocating {} bytes on the GPU", bytes));
  bytes_ = bytes;
}

void Buffer::release() noexcept {
  if (ptr_) driver().cuMemFree_v2(ptr_);
}

void Buffer::check_range(const char* what, std::size_t bytes, std::size_t offset) const {
  if (offset > bytes_ || bytes > bytes_ - offset)
    throw Error(what, fmt::format("{} bytes at offset {}", bytes, offset),
                fmt::format("the {} bytes of the buffer", bytes_), "");
}

void Buffer::upload(const void* source, std::size_t bytes, std::size_t offset) {
  check_range("upload", bytes, offset);
  if (bytes == 0) return;
  check(driver().cuMemcpyHtoD_v2(ptr_ + offset, source, bytes), "copying to the GPU");
  settle();
}

void Buffer::download(void* target, std::size_t bytes, std::size_t offset) const {
  check_range("download", bytes, offset);
  if (bytes == 0) return;
  check(driver().cuMemcpyDtoH_v2(target, ptr_ + offset, bytes), "copying from the GPU");
}

void Buffer::fill(unsigned char byte) {
  fill_async(byte, nullptr);
  settle();
}

void Buffer::upload_async(const void* source, std::size_t bytes, std::size_t offset,
                          CUstream stream) {
  check_range("upload_async", bytes, offset);
  if (bytes == 0) return;
  check(driver().cuMemcpyHtoDAsync_v2(ptr_ + offset, source, bytes, stream), "copying to the GPU");
}

void Buffer::download_async(void* target, std::size_t bytes, std::size_t offset,
                            CUstream stream) const {
  check_range("download_async", bytes, offset);
  if (bytes == 0) return;
  check(driver().cuMemcpyDtoHAsync_v2(target, ptr_ + offset, bytes, stream),
        "copying from the GPU");
}

void Buffer::fill_async(unsigned char byte, CUstream stream) {
  if (bytes_ == 0) return;
  check(driver().cuMemsetD8Async(ptr_, byte, bytes_, stream), "filling GPU memory");
}

PinnedBuffer::PinnedBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes)
    check(driver().cuMemHostAlloc(&data_, bytes, 0),
          fmt::format("allocating {} page-locked bytes", bytes));
}

PinnedBuffer::~PinnedBuffer() {
  if (data_) driver().cuMemFreeHost(data_);
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryInfo memory_info() {
  MemoryInfo info;
  check(driver().cuMemGetInfo_v2(&info.free_bytes, &info.total_bytes), "reading free GPU memory");
  return info;
}

}  // namespace ramp::gpu
