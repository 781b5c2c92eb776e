// SPDX-License-Identifier: Apache-2.0
// libFuzzer on the array importers: .npy and .npz, with the first byte choosing E, the order of the
// axes and force.
#include <cstdint>
#include <string_view>

#include "base/error.hpp"
#include "problem/trace_import.hpp"
#include "problem/unpack.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  ramp::ImportOptions options;
  options.info.experts = 1 + (data[0] & 63);
  options.order = data[0] & 64 ? ramp::AxisOrder::kTokenLayerK : ramp::AxisOrder::kLayerTokenK;
  options.force = data[0] & 128;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (ramp::is_zip(bytes))
      ramp::import_npz(bytes, options);
    else if (ramp::is_gzip(bytes))
      ramp::import_npy(ramp::gunzip(bytes, 1u << 20), "", options);
    else
      ramp::import_npy(bytes, "", options);
  } catch (const ramp::Error&) {
  }
  return 0;
}
