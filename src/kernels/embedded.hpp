// SPDX-License-Identifier: Apache-2.0
// The device sources inside the program, by the path that #include names them with.
#pragma once

namespace ramp {
struct EmbeddedSource {
  const char* name;
  const char* text;
};
extern const EmbeddedSource kEmbeddedSources[];
extern const int kNumEmbeddedSources;
}  // namespace ramp
