// SPDX-License-Identifier: Apache-2.0
// What every compilation of ours has in common: the sources that it may include, the options, and
// the hash that plans and measurements keep of the code they speak about.
#pragma once

#include <string>

#include "gpu/compiler.hpp"

namespace ramp {

// A request whose source may include every embedded file; the kernel's name is for people.
gpu::CompileRequest device_request(std::string name, std::string source);

// Over the device code of `prepare` and `ffn`, what they include, and the options: two builds with
// the same hash run the same instructions for a configuration.  "xxh3-128:<32 digits>".
std::string device_sources_hash();

// Throws Error with the reason when the code is right but not as fast as written (spills,
// serialised wgmma), or its entry point needs more registers than the launch has.
void require_clean(const gpu::Cubin& cubin, const std::string& name, const char* kernel,
                   int registers);

}  // namespace ramp
