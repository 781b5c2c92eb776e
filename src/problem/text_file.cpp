// SPDX-License-Identifier: Apache-2.0
#include "problem/text_file.hpp"

#include <fstream>

#include "base/error.hpp"

namespace ramp {

std::string read_whole_file(const std::filesystem::path& path, const std::string& what,
                            std::uintmax_t max_bytes) {
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  if (failed || !std::filesystem::exists(status))
    throw Error(what, path.string(), "a file that exists", "check the path");
  if (!std::filesystem::is_regular_file(status))
    throw Error(what, path.string(), "a regular file", "give the file itself");
  const std::uintmax_t bytes = std::filesystem::file_size(path, failed);
  if (failed) throw Error(what, path.string(), "a readable file", "check its permissions");
  if (bytes > max_bytes)
    throw Error(what, fmt::format("{} ({} bytes)", path.string(), bytes),
                fmt::format("at most {} bytes", max_bytes), "check that this is the right file");
  std::ifstream in(path, std::ios::binary);
  std::string text(bytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(bytes));
  if (!in || in.gcount() != static_cast<std::streamsize>(bytes))
    throw Error(what, path.string(), "a readable file", "check its permissions and the disk");
  return text;
}

}  // namespace ramp
