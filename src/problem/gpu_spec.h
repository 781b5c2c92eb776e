// SPDX-License-Identifier: Apache-2.0
// What a choice without measurements needs to know of a GPU.  Host and device code may include it.
#pragma once

#include "base/host_device.h"

namespace ramp {

struct GpuSpec {
  const char* name;        // short, as on the command line: "h200"
  const char* product;     // as the driver reports it
  int sms;                 // streaming multiprocessors
  int smem_block_bytes;    // shared memory one block may ask for
  int smem_sm_bytes;       // shared memory of an SM
  long long l2_bytes;      // L2 cache
  double memory_tbps;      // TB/s: data sheet
  double stream_tbps;      // TB/s that a pure weight stream reaches
  double fp8_pflops;       // dense E4M3, PFLOP/s: data sheet
  double matrix_pflops;    // PFLOP/s that wgmma reaches
  double stream_start_us;  // time of a weight stream of no bytes, in a captured graph
  double kernel_us;        // one more empty kernel in a captured graph
  bool measured;  // the last four and stream_tbps were measured; else scaled from H200's ratios
  const char* source;  // where the numbers come from
};

}  // namespace ramp
