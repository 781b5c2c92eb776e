// SPDX-License-Identifier: Apache-2.0
#include "gpu/compiler.hpp"

#include <chrono>
#include <mutex>

#include "gpu/compile_workers.hpp"
#include "gpu/include_closure.hpp"
#include "gpu/nvrtc.hpp"

namespace ramp::gpu {
namespace {

constexpr int kLogLines = 12;  // of an error text: the first error is the one that counts

std::string first_lines(const std::string& text, int lines) {
  std::size_t end = 0;
  for (int i = 0; i < lines && end != std::string::npos; ++i) end = text.find('\n', end + (i > 0));
  return end == std::string::npos || end == 0 ? text : text.substr(0, end) + "\n  ...";
}

// Destroys the program on every way out.
class Program {
 public:
  explicit Program(const CompileRequest& request) {
    const std::vector<std::pair<std::string, std::string>> headers = reachable_headers(request);
    std::vector<const char*> names, texts;
    for (const auto& [name, text] : headers) {
      names.push_back(name.c_str());
      texts.push_back(text.c_str());
    }
    const int status =
        nvrtc().nvrtcCreateProgram(&handle_, request.source.c_str(), (request.name + ".cu").c_str(),
                                   static_cast<int>(names.size()), texts.data(), names.data());
    if (status != 0)
      throw Error(fmt::format("NVRTC doesn't take {}: {}", request.name,
                              nvrtc().nvrtcGetErrorString(status)));
  }
  ~Program() { nvrtc().nvrtcDestroyProgram(&handle_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int compile(const std::vector<std::string>& options) {
    std::vector<const char*> raw;
    for (const std::string& option : options) raw.push_back(option.c_str());
    return nvrtc().nvrtcCompileProgram(handle_, static_cast<int>(raw.size()), raw.data());
  }

  std::string log() const {
    std::size_t size = 0;
    if (nvrtc().nvrtcGetProgramLogSize(handle_, &size) != 0 || size <= 1) return "";
    std::string text(size, '\0');
    nvrtc().nvrtcGetProgramLog(handle_, text.data());
    text.resize(size - 1);  // NVRTC counts the closing zero
    return text;
  }

  std::vector<char> cubin() const {
    std::size_t size = 0;
    if (nvrtc().nvrtcGetCUBINSize(handle_, &size) != 0 || size == 0) return {};
    std::vector<char> bytes(size);
    nvrtc().nvrtcGetCUBIN(handle_, bytes.data());
    return bytes;
  }

 private:
  nvrtcProgram handle_ = nullptr;
};

}  // namespace

std::vector<std::string> effective_options(const CompileRequest& request) {
  std::vector<std::string> options{"--std=c++20", "--gpu-architecture=" + request.arch,
                                   "--ptxas-options=-v"};
  options.insert(options.end(), request.options.begin(), request.options.end());
  return options;
}

Cubin compile(const CompileRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  Cubin cubin;
  Program program(request);
  std::vector<std::string> options = effective_options(request);
  // From CUDA 12.9 on NVRTC keeps code where there is a driver (~/.nv), and says nothing of
  // registers and spills when it finds it there.
  if (std::pair(nvrtc().major, nvrtc().minor) >= std::pair(12, 9)) options.push_back("--no-cache");
  const int status = program.compile(options);
  cubin.log = program.log();
  if (status != 0)
    throw Error(fmt::format("{} doesn't compile for {} with NVRTC {} ({}):\n{}", request.name,
                            request.arch, nvrtc_version(), nvrtc().nvrtcGetErrorString(status),
                            first_lines(cubin.log, kLogLines)));
  cubin.bytes = program.cubin();
  if (cubin.bytes.empty())
    throw Error("arch", request.arch,
                "a real architecture such as sm_90a (compute_90 makes no cubin)", "");
  read_resources(cubin.log, cubin);
  if (cubin.silent())
    throw Error(request.name, "code without a word of registers and spills",
                "what --ptxas-options=-v prints for each kernel",
                "run again with CUDA_CACHE_DISABLE=1");
  cubin.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return cubin;
}

std::vector<CompileResult> compile_all(std::span<const CompileRequest> requests, int jobs,
                                       const CompileProgress& progress) {
  nvrtc();  // missing: say so once, and open it here so that the children inherit it
  return run_compile_workers(requests, jobs, progress, [](const CompileRequest& request) {
    CompileResult result;
    try {
      result.cubin = compile(request);
    } catch (const std::exception& e) {
      result.error = e.what();
    }
    return result;
  });
}

}  // namespace ramp::gpu
