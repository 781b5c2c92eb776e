// SPDX-License-Identifier: Apache-2.0
// The inside of a measurements file, version 1 (docs/measurements-format.md): its tables, how
// counts, passes and samples are packed, and readers that believe nothing.  Only the files that
// read and write it include this.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lab/measurements.hpp"
#include "lab/sqlite.hpp"

namespace ramp {

using Bytes = std::vector<unsigned char>;

// A field of the provenance or the shape and its key in the table meta.
struct ProvenanceField {
  const char* key;
  std::string Provenance::*member;
};
std::span<const ProvenanceField> provenance_fields();
struct ShapeField {
  const char* key;
  int LocalShape::*member;
};
std::span<const ShapeField> shape_fields();

// A sample is 6 bytes, little endian: us as float32, SM clock in MHz as uint16.
inline constexpr std::size_t kSampleBytes = 6;
void put_sample(Bytes& bytes, const Sample& sample);
Sample read_sample(std::span<const unsigned char> bytes, std::size_t index);

void create_schema(Database& database);
// Kind, version, schema and pages; throws Error for anything but a whole file of this version.
void check_whole(Database& database);

std::map<std::string, std::string> read_meta(Database& database);
// Provenance, shape and gpus; then loads and passes.
Workload read_head(const std::map<std::string, std::string>& meta, const std::string& path);
void read_workload(Database& database, Workload& workload);
void write_workload(Database& database, const Workload& workload);
// ids: of the table config, in the same order; may be null.
std::vector<TimedConfig> read_configs(Database& database, std::vector<std::int64_t>* ids);

[[noreturn]] void damaged(const std::string& path, const std::string& what);

// So that a rename or a finished file survives a power cut.
void sync_path(const std::string& path);

}  // namespace ramp
