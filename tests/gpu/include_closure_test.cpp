// SPDX-License-Identifier: Apache-2.0
// Which headers count for a cubin.
#include "gpu/include_closure.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ramp::gpu {
namespace {

std::string reached(const std::string& source,
                    std::vector<std::pair<std::string, std::string>> headers) {
  CompileRequest request;
  request.source = source;
  request.headers = std::move(headers);
  std::string names;
  for (const auto& [name, text] : reachable_headers(request)) names += name + " ";
  return names;
}

TEST(IncludeClosure, FollowsIncludesFromTheSourceOn) {
  EXPECT_EQ(
      reached(
          "#include \"a.h\"\n",
          {{"c.h", ""}, {"b.h", "#include <c.h>"}, {"a.h", "x\n#include \"b.h\"\n"}, {"d.h", ""}}),
      "a.h b.h c.h ");
  EXPECT_EQ(reached("int x;", {{"a.h", ""}}), "");
}

TEST(IncludeClosure, TakesEveryWayToWriteAnInclude) {
  for (const char* line : {"#include \"a.h\"", "  #  include\t\"a.h\"  // why", "#include <a.h>",
                           "#if 0\n#include \"a.h\"\n#endif", "#include\"a.h\"\r\n"})
    EXPECT_EQ(reached(line, {{"a.h", ""}, {"b.h", ""}}), "a.h ") << line;
}

TEST(IncludeClosure, EndsOnCircles) {
  EXPECT_EQ(
      reached("#include \"a.h\"\n", {{"a.h", "#include \"b.h\""}, {"b.h", "#include \"a.h\""}}),
      "a.h b.h ");
}

TEST(IncludeClosure, KeepsAllWhenAnIncludeIsComputed) {
  EXPECT_EQ(reached("#define H \"a.h\"\n#include H\n", {{"a.h", ""}, {"z.h", ""}}), "a.h z.h ");
  EXPECT_EQ(reached("#include \"a.h\"\n", {{"a.h", "#include MENU\n"}, {"z.h", ""}}), "a.h z.h ");
}

TEST(IncludeClosure, OtherDirectivesAreNoIncludes) {
  EXPECT_EQ(reached("#pragma once\n#define include \"a.h\"\n// #include \"a.h\"\nconst char* s = "
                    "\"#include <a.h>\";\n",
                    {{"a.h", ""}}),
            "");
}

}  // namespace
}  // namespace ramp::gpu
