// SPDX-License-Identifier: Apache-2.0
// Compiled device code and what the assembler said about it.  Registers, spills and a serialised
// wgmma pipeline are known without a GPU, so a bad configuration is refused where it is compiled.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ramp::gpu {

// One function of a cubin.
struct KernelResources {
  std::string name;    // as in the cubin; mangled unless extern "C"
  bool entry = false;  // a __global__ function; others are called by one and have no own registers
  int registers = 0;   // a thread
  int spill_stores = 0;  // bytes a thread
  int spill_loads = 0;   // bytes a thread
  int stack = 0;         // bytes a thread, spills included
  int smem_static = 0;   // bytes a block
  int barriers = 0;      // named barriers
};

struct Cubin {
  std::vector<char> bytes;
  std::string log;  // of NVRTC and ptxas
  std::vector<KernelResources> kernels;
  // ptxas serialised wgmma (C7510 and its relatives): right results, at a fraction of the speed.
  bool wgmma_serialized = false;
  double seconds = 0;  // that the compilation took

  // The function, or nullptr.
  const KernelResources* find(std::string_view name) const;
  bool spills() const;  // any function does
  // There is code, but nothing is known of its registers and spills.
  bool silent() const;
  // Empty when the code is as fast as written; else why not: "ffn: 24 bytes of spills, ...".
  std::string defects() const;
};

// Reads kernels and wgmma_serialized out of a log made with --ptxas-options=-v.
void read_resources(std::string_view log, Cubin& cubin);

// A cubin as bytes, for the cache and for the pipe of a compiling process.  decode returns nothing
// unless the bytes are exactly what encode wrote; it never trusts a length.
std::string encode(const Cubin& cubin);
std::optional<Cubin> decode(std::string_view bytes);

}  // namespace ramp::gpu
