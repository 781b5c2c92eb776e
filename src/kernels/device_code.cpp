// SPDX-License-Identifier: Apache-2.0
#include "kernels/device_code.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <utility>
#include <vector>

#include "base/error.hpp"
#include "gpu/include_closure.hpp"
#include "kernels/embedded.hpp"
#include "kernels/ffn/program.hpp"
#include "kernels/prepare/program.hpp"

namespace ramp {

gpu::CompileRequest device_request(std::string name, std::string source) {
  gpu::CompileRequest request;
  request.name = std::move(name);
  request.source = std::move(source);
  for (int i = 0; i < kNumEmbeddedSources; ++i)
    request.headers.emplace_back(kEmbeddedSources[i].name, kEmbeddedSources[i].text);
  // Functions that host and device share are device functions here without a mark on each.
  request.options = {"-default-device"};
  return request;
}

std::string device_sources_hash() {
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  const auto text = [&](const std::string& s) {
    const std::uint64_t size = s.size();  // so that no two lists of texts look alike
    XXH3_128bits_update(state, &size, sizeof size);
    XXH3_128bits_update(state, s.data(), s.size());
  };
  const FfnConfig one, two{.rows = 128, .stages = 3, .staging = 1, .topology = kF3};
  for (const gpu::CompileRequest& request :
       {ffn_request({&one, 1}), ffn_request({&two, 1}), prepare_request()}) {
    for (const std::string& option : gpu::effective_options(request)) text(option);
    for (const auto& [name, body] : gpu::reachable_headers(request)) text(name), text(body);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return fmt::format("xxh3-128:{:016x}{:016x}", hash.high64, hash.low64);
}

void require_clean(const gpu::Cubin& cubin, const std::string& name, const char* kernel,
                   int registers) {
  const char* next = "leave it out of the menu; `ramp check` lists what compiles cleanly";
  if (const std::string defects = cubin.defects(); !defects.empty())
    throw Error("configuration " + name, defects,
                "code without spills and with wgmma that overlaps", next);
  const gpu::KernelResources* found = cubin.find(kernel);
  if (!found)
    throw Error("cubin of " + name, fmt::format("no kernel {}", kernel),
                "what this version compiles", "remove the cache directory and run again");
  if (found->registers > registers)
    throw Error("configuration " + name, fmt::format("{} registers a thread", found->registers),
                fmt::format("at most {} at launch", registers), next);
}

}  // namespace ramp
