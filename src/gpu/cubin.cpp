// SPDX-License-Identifier: Apache-2.0
#include "gpu/cubin.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

namespace ramp::gpu {
namespace {

// The number in front of `unit`, as in "32 bytes stack frame"; 0 when the line doesn't have it.
int number_before(std::string_view line, std::string_view unit) {
  const std::size_t at = line.find(unit);
  if (at == std::string_view::npos || at == 0) return 0;
  std::size_t end = at;
  while (end > 0 && line[end - 1] == ' ') --end;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

std::string_view after(std::string_view line, std::string_view prefix) {
  const std::size_t at = line.find(prefix);
  return at == std::string_view::npos ? std::string_view{} : line.substr(at + prefix.size());
}

KernelResources& named(std::vector<KernelResources>& kernels, std::string_view name) {
  for (KernelResources& k : kernels)
    if (k.name == name) return k;
  kernels.push_back({std::string(name)});
  return kernels.back();
}

constexpr std::size_t kMaxJson = 16u << 20, kMaxCubin = 256u << 20;

}  // namespace

const KernelResources* Cubin::find(std::string_view name) const {
  for (const KernelResources& k : kernels)
    if (k.name == name) return &k;
  return nullptr;
}

bool Cubin::silent() const {
  // Each function's code is a section of this name.
  constexpr std::string_view kCode = ".text.";
  return kernels.empty() &&
         std::search(bytes.begin(), bytes.end(), kCode.begin(), kCode.end()) != bytes.end();
}

bool Cubin::spills() const {
  return std::any_of(kernels.begin(), kernels.end(),
                     [](const KernelResources& k) { return k.spill_stores || k.spill_loads; });
}

std::string Cubin::defects() const {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  for (const KernelResources& k : kernels)
    if (k.spill_stores || k.spill_loads)
      add(fmt::format("{} spills registers ({} bytes stored, {} loaded)", k.name, k.spill_stores,
                      k.spill_loads));
  if (wgmma_serialized) add("ptxas serialised the wgmma pipeline (C7510)");
  return text;
}

// The lines look like this, one block a function; a function that is no entry has no "Compiling"
// and no "Used":
//   ptxas info    : Compiling entry function 'ffn' for 'sm_90a'
//   ptxas info    : Function properties for ffn
//   ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 30 registers, used 1 barriers, 128 bytes smem
void read_resources(std::string_view log, Cubin& cubin) {
  cubin.wgmma_serialized =
      log.find("wgmma.mma_async instructions are serialized") != std::string_view::npos;
  std::string entry, function;
  while (!log.empty()) {
    const std::size_t end = log.find('\n');
    std::string_view line = log.substr(0, end);
    log.remove_prefix(end == std::string_view::npos ? log.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (const std::string_view rest = after(line, "Compiling entry function '"); !rest.empty()) {
      entry = function = rest.substr(0, rest.find('\''));
      named(cubin.kernels, entry).entry = true;
    } else if (const std::string_view name = after(line, "Function properties for ");
               !name.empty()) {
      function = name;
      named(cubin.kernels, function);
    } else if (line.find("bytes stack frame") != std::string_view::npos && !function.empty()) {
      KernelResources& k = named(cubin.kernels, function);
      k.stack = number_before(line, "bytes stack frame");
      k.spill_stores = number_before(line, "bytes spill stores");
      k.spill_loads = number_before(line, "bytes spill loads");
    } else if (const std::string_view used = after(line, "Used ");
               !used.empty() && !entry.empty()) {
      KernelResources& k = named(cubin.kernels, entry);
      k.registers = number_before(line, "registers");
      k.barriers = number_before(line, "barriers");
      k.smem_static = number_before(line, "bytes smem");
    }
  }
}

// u64 JSON length, u64 code length, JSON, code.
std::string encode(const Cubin& cubin) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const KernelResources& k : cubin.kernels)
    kernels.push_back({{"name", k.name},
                       {"entry", k.entry},
                       {"registers", k.registers},
                       {"spill_stores", k.spill_stores},
                       {"spill_loads", k.spill_loads},
                       {"stack", k.stack},
                       {"smem_static", k.smem_static},
                       {"barriers", k.barriers}});
  const nlohmann::json description{{"kernels", kernels},
                                   {"log", cubin.log},
                                   {"wgmma_serialized", cubin.wgmma_serialized},
                                   {"seconds", cubin.seconds}};
  // A log may quote a source in any encoding; replaced rather than refused.
  const std::string text =
      description.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::uint64_t lengths[2] = {text.size(), cubin.bytes.size()};
  std::string result(sizeof lengths, '\0');
  std::memcpy(result.data(), lengths, sizeof lengths);
  result += text;
  result.append(cubin.bytes.data(), cubin.bytes.size());
  return result;
}

std::optional<Cubin> decode(std::string_view bytes) {
  std::uint64_t lengths[2];
  if (bytes.size() < sizeof lengths) return std::nullopt;
  std::memcpy(lengths, bytes.data(), sizeof lengths);
  bytes.remove_prefix(sizeof lengths);
  if (lengths[0] > kMaxJson || lengths[1] > kMaxCubin || lengths[0] + lengths[1] != bytes.size())
    return std::nullopt;
  try {
    const nlohmann::json description = nlohmann::json::parse(bytes.substr(0, lengths[0]));
    Cubin cubin;
    for (const nlohmann::json& k : description.at("kernels"))
      cubin.kernels.push_back({k.at("name").get<std::string>(), k.at("entry").get<bool>(),
                               k.at("registers").get<int>(), k.at("spill_stores").get<int>(),
                               k.at("spill_loads").get<int>(), k.at("stack").get<int>(),
                               k.at("smem_static").get<int>(), k.at("barriers").get<int>()});
    cubin.log = description.at("log").get<std::string>();
    cubin.wgmma_serialized = description.at("wgmma_serialized").get<bool>();
    cubin.seconds = description.at("seconds").get<double>();
    const std::string_view code = bytes.substr(lengths[0]);
    cubin.bytes.assign(code.begin(), code.end());
    return cubin;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace ramp::gpu
