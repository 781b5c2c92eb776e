// SPDX-License-Identifier: Apache-2.0
#include "gpu/dynamic_library.hpp"

#include <dlfcn.h>
#include <link.h>

namespace ramp::gpu {

std::optional<DynamicLibrary> DynamicLibrary::open(std::span<const std::string> candidates,
                                                   std::vector<std::string>* failures) {
  for (const std::string& candidate : candidates) {
    void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle) {
      std::string path = candidate;
      link_map* map = nullptr;
      if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name)
        path = map->l_name;
      return DynamicLibrary(handle, std::move(path));
    }
    if (failures) {
      const char* why = dlerror();
      failures->push_back(why ? why : candidate + ": can't be opened");
    }
  }
  return std::nullopt;
}

void* DynamicLibrary::symbol(const char* name) const { return dlsym(handle_, name); }

}  // namespace ramp::gpu
