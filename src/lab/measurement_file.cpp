// SPDX-License-Identifier: Apache-2.0
#include "lab/measurement_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/error.hpp"

namespace ramp {
namespace {

constexpr std::int64_t kApplicationId = 0x72616d70;  // "ramp", in the file's header
constexpr std::int64_t kVersion = 1;

// Far above any campaign, far below what hurts.
constexpr long long kMaxConfigs = 20'000;
constexpr long long kMaxLoads = 1'000'000;
constexpr long long kMaxPasses = 1'000'000;
constexpr int kMaxGpus = 4096;
constexpr std::uint32_t kMaxCount = 1u << 30;

struct TableSql {
  const char* name;
  const char* sql;
};
// The text is part of the format: a file whose schema reads otherwise is not one of ours.
constexpr TableSql kTables[] = {
    {"meta", "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"},
    {"config",
     "CREATE TABLE config(id INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE, knobs TEXT NOT NULL, "
     "grid TEXT NOT NULL, "
     "occupancy TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL, registers INTEGER NOT "
     "NULL, "
     "smem INTEGER NOT NULL)"},
    {"load", "CREATE TABLE load(id INTEGER PRIMARY KEY, counts BLOB NOT NULL UNIQUE)"},
    {"pass",
     "CREATE TABLE pass(id INTEGER PRIMARY KEY, tokens INTEGER NOT NULL, layer INTEGER NOT NULL, "
     "domain TEXT NOT NULL, "
     "role TEXT NOT NULL, loads BLOB NOT NULL)"},
    {"sample",
     "CREATE TABLE sample(config INTEGER NOT NULL, load INTEGER NOT NULL, dropped INTEGER NOT "
     "NULL, taken BLOB NOT "
     "NULL, PRIMARY KEY(config, load)) WITHOUT ROWID"},
};

// LEB128, as counts and indices are mostly below 128.
void put_varint(Bytes& bytes, std::uint32_t value) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<unsigned char>(value | 0x80));
  bytes.push_back(static_cast<unsigned char>(value));
}

// Exactly `number` varints, each at most `most`.
std::vector<int> read_varints(std::span<const unsigned char> bytes, int number, std::uint32_t most,
                              const std::string& path, const char* what) {
  std::vector<int> values;
  values.reserve(static_cast<std::size_t>(number));
  std::size_t at = 0;
  for (int i = 0; i < number; ++i) {
    std::uint32_t value = 0;
    for (int shift = 0;; shift += 7) {
      if (at == bytes.size() || shift > 28)
        damaged(path, fmt::format("a {} that ends early", what));
      const unsigned char byte = bytes[at++];
      value |= static_cast<std::uint32_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) break;
    }
    if (value > most) damaged(path, fmt::format("a {} with the value {}", what, value));
    values.push_back(static_cast<int>(value));
  }
  if (at != bytes.size()) damaged(path, fmt::format("a {} that is too long", what));
  return values;
}

Bytes pack_counts(const std::vector<int>& counts) {
  Bytes bytes;
  for (int n : counts) put_varint(bytes, static_cast<std::uint32_t>(n));
  return bytes;
}

constexpr ProvenanceField kProvenanceFields[] = {
    {"model", &Provenance::model},     {"layout", &Provenance::layout},
    {"routing", &Provenance::routing}, {"gpu", &Provenance::gpu},
    {"driver", &Provenance::driver},   {"toolkit", &Provenance::toolkit},
    {"commit", &Provenance::commit},   {"date", &Provenance::date},
    {"sources", &Provenance::sources}, {"how", &Provenance::how},
};
constexpr ShapeField kShapeFields[] = {{"experts", &LocalShape::experts},
                                       {"top_k", &LocalShape::top_k},
                                       {"hidden", &LocalShape::hidden},
                                       {"intermediate", &LocalShape::intermediate}};

// Notes that only the times of kernels that are not ours have, so that a campaign's file holds what
// it always held.
constexpr const char* kKernelKey = "kernel";
constexpr std::string_view kShippedKey = "shipped.";  // and the tokens

// Kind and version first, since they decide what the person must do; then the schema, to the
// letter.
void check_schema(Database& database) {
  const std::string& path = database.path();
  if (database.integer("PRAGMA application_id") != kApplicationId)
    throw Error(path, "an SQLite file of another program", "a ramp measurements file (.rmeas)",
                "check the path");
  const std::int64_t version = database.integer("PRAGMA user_version");
  if (version != kVersion)
    throw Error(path, fmt::format("format version {}", version),
                fmt::format("version {}", kVersion),
                version > kVersion ? "use the newer ramp that wrote it"
                                   : "measure again with `ramp profile`");
  std::map<std::string, std::string> found;
  Statement statement(database,
                      "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL LIMIT 20");
  while (statement.step()) found[statement.text(0)] = statement.text(1);
  for (const TableSql& table : kTables)
    if (auto it = found.find(table.name); it == found.end() || it->second != table.sql)
      damaged(path, fmt::format("a file whose table {} is not as version {} has it", table.name,
                                kVersion));
  if (found.size() != std::size(kTables)) damaged(path, "a file with tables of others in it");
}

long long limited(Database& database, const char* sql, long long most, const char* what) {
  const long long number = database.integer(sql);
  if (number > most)
    throw Error(database.path(), fmt::format("{} {}", number, what), fmt::format("up to {}", most),
                "the file was not written by ramp");
  return number;
}

int whole_number(const std::map<std::string, std::string>& meta, const char* key, int least,
                 int most, const std::string& path) {
  const auto it = meta.find(key);
  int value = 0;
  const bool read = it != meta.end() && [&] {
    const auto [end, error] =
        std::from_chars(it->second.data(), it->second.data() + it->second.size(), value);
    return error == std::errc() && end == it->second.data() + it->second.size();
  }();
  if (!read || value < least || value > most)
    damaged(path, fmt::format("{} = {}", key, it == meta.end() ? "nothing" : it->second));
  return value;
}

void check_counts(const std::vector<int>& counts, int experts, std::size_t index) {
  const std::string field = fmt::format("load {}", index);
  if (static_cast<int>(counts.size()) != experts)
    throw Error(field, fmt::format("{} counts", counts.size()),
                fmt::format("one for each of {} local experts", experts), "");
  if (!std::is_sorted(counts.rbegin(), counts.rend()) || counts.back() < 0 ||
      counts.front() > static_cast<int>(kMaxCount))
    throw Error(field, fmt::format("{}", fmt::join(counts, ",")),
                "counts from 0, sorted descending", "");
}

}  // namespace

std::span<const ProvenanceField> provenance_fields() { return kProvenanceFields; }
std::span<const ShapeField> shape_fields() { return kShapeFields; }

void damaged(const std::string& path, const std::string& what) {
  throw Error(path, what, "a whole measurements file",
              "copy it again from where it came, or measure again with `ramp profile`");
}

void put_sample(Bytes& bytes, const Sample& sample) {
  std::uint32_t us = 0;
  std::memcpy(&us, &sample.us, sizeof us);
  const auto mhz = static_cast<std::uint16_t>(std::clamp(std::lround(sample.sm_mhz), 0L, 65535L));
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<unsigned char>(us >> (8 * i)));
  bytes.push_back(static_cast<unsigned char>(mhz & 0xff));
  bytes.push_back(static_cast<unsigned char>(mhz >> 8));
}

Sample read_sample(std::span<const unsigned char> bytes, std::size_t index) {
  const unsigned char* at = bytes.data() + index * kSampleBytes;
  std::uint32_t us = 0;
  for (int i = 0; i < 4; ++i) us |= static_cast<std::uint32_t>(at[i]) << (8 * i);
  Sample sample;
  std::memcpy(&sample.us, &us, sizeof us);
  sample.sm_mhz = static_cast<float>(at[4] | at[5] << 8);
  return sample;
}

void create_schema(Database& database) {
  Transaction transaction(database);
  database.execute(fmt::format("PRAGMA application_id={}", kApplicationId).c_str());
  database.execute(fmt::format("PRAGMA user_version={}", kVersion).c_str());
  for (const TableSql& table : kTables) database.execute(table.sql);
  transaction.commit();
}

std::map<std::string, std::string> read_meta(Database& database) {
  limited(database, "SELECT count(*) FROM meta", 1000, "notes");
  std::map<std::string, std::string> meta;
  Statement statement(database, "SELECT key, value FROM meta");
  while (statement.step()) meta[statement.text(0)] = statement.text(1);
  return meta;
}

Workload read_head(const std::map<std::string, std::string>& meta, const std::string& path) {
  Workload workload;
  for (const ProvenanceField& field : kProvenanceFields) {
    const auto it = meta.find(field.key);
    if (it == meta.end()) damaged(path, fmt::format("a file without {}", field.key));
    workload.provenance.*field.member = it->second;
  }
  for (const ShapeField& field : kShapeFields)
    workload.shape.*field.member = whole_number(
        meta, field.key, 1, field.member == &LocalShape::experts ? kMaxExperts : 1 << 24, path);
  workload.gpus = whole_number(meta, "gpus", 1, kMaxGpus, path);
  if (const auto it = meta.find(kKernelKey); it != meta.end())
    workload.provenance.kernel = it->second;
  for (const auto& [key, label] : meta) {
    if (!key.starts_with(kShippedKey)) continue;
    int tokens = 0;
    const char *at = key.data() + kShippedKey.size(), *end = key.data() + key.size();
    const auto [next, error] = std::from_chars(at, end, tokens);
    if (error != std::errc() || next != end || tokens < 0) damaged(path, "the note " + key);
    workload.shipped.push_back({tokens, label});
  }
  std::sort(workload.shipped.begin(), workload.shipped.end(),
            [](const ShippedPick& a, const ShippedPick& b) { return a.tokens < b.tokens; });
  return workload;
}

// Loads and passes; ids are 1, 2, 3, ... in the order of the vectors.
void read_workload(Database& database, Workload& workload) {
  const std::string& path = database.path();
  const long long loads = limited(database, "SELECT count(*) FROM load", kMaxLoads, "loads");
  Statement load(database, "SELECT id, counts FROM load ORDER BY id");
  while (load.step()) {
    if (load.integer(0) != static_cast<std::int64_t>(workload.loads.size()) + 1)
      damaged(path, "loads with a gap in their ids");
    workload.loads.push_back(
        read_varints(load.blob(1), workload.shape.experts, kMaxCount, path, "load"));
    if (!std::is_sorted(workload.loads.back().rbegin(), workload.loads.back().rend()))
      damaged(path, "a load that is not sorted");
  }
  limited(database, "SELECT count(*) FROM pass", kMaxPasses, "passes");
  Statement pass(database, "SELECT tokens, layer, domain, role, loads FROM pass ORDER BY id");
  while (pass.step()) {
    MeasuredPass p;
    const std::int64_t tokens = pass.integer(0), layer = pass.integer(1);
    if (tokens < 0 || tokens > kMaxCount || layer < -1 || layer > 1 << 20)
      damaged(path, "a pass with a size out of range");
    p.tokens = static_cast<int>(tokens);
    p.layer = static_cast<int>(layer);
    p.domain = pass.text(2);
    p.role = parse_role(pass.text(3), path);
    p.load_of_gpu =
        read_varints(pass.blob(4), workload.gpus, static_cast<std::uint32_t>(loads), path, "pass");
    for (int& index : p.load_of_gpu) --index;  // 0 on disk: no token on that GPU
    workload.passes.push_back(std::move(p));
  }
}

std::vector<TimedConfig> read_configs(Database& database, std::vector<std::int64_t>* ids) {
  limited(database, "SELECT count(*) FROM config", kMaxConfigs, "configurations");
  std::vector<TimedConfig> configs;
  Statement row(database,
                "SELECT label, knobs, grid, occupancy, status, reason, registers, smem, id FROM "
                "config ORDER BY id");
  while (row.step()) {
    TimedConfig c;
    c.candidate.label = row.text(0);
    c.candidate.knobs = row.text(1);
    c.candidate.grid = parse_grid(row.text(2), database.path());
    c.candidate.occupancy = row.text(3);
    c.status = parse_status(row.text(4), database.path());
    c.reason = row.text(5);
    c.candidate.registers = static_cast<int>(row.integer(6));
    c.candidate.smem_bytes = static_cast<int>(row.integer(7));
    if (ids) ids->push_back(row.integer(8));
    configs.push_back(std::move(c));
  }
  return configs;
}

void write_workload(Database& database, const Workload& workload) {
  if (workload.shape.experts < 1 || workload.shape.experts > kMaxExperts)
    throw Error("experts on a GPU", std::to_string(workload.shape.experts),
                fmt::format("1 to {}", kMaxExperts), "");
  Transaction transaction(database);
  Statement meta(database, "INSERT OR REPLACE INTO meta VALUES(?, ?)");
  for (const ProvenanceField& field : kProvenanceFields)
    meta.bind(1, std::string_view(field.key))
        .bind(2, std::string_view(workload.provenance.*field.member))
        .run();
  for (const ShapeField& field : kShapeFields) {
    const std::string value = std::to_string(workload.shape.*field.member);
    meta.bind(1, std::string_view(field.key)).bind(2, std::string_view(value)).run();
  }
  const std::string gpus = std::to_string(workload.gpus);
  meta.bind(1, std::string_view("gpus")).bind(2, std::string_view(gpus)).run();
  if (const std::string& kernel = workload.provenance.kernel; !kernel.empty())
    meta.bind(1, std::string_view(kKernelKey)).bind(2, std::string_view(kernel)).run();
  for (const ShippedPick& pick : workload.shipped) {
    const std::string key = fmt::format("{}{}", kShippedKey, pick.tokens);
    meta.bind(1, std::string_view(key)).bind(2, std::string_view(pick.label)).run();
  }
  Statement load(database, "INSERT INTO load VALUES(?, ?)");
  for (std::size_t i = 0; i < workload.loads.size(); ++i) {
    check_counts(workload.loads[i], workload.shape.experts, i);
    const Bytes counts = pack_counts(workload.loads[i]);
    load.bind(1, static_cast<std::int64_t>(i) + 1).bind(2, counts).run();
  }
  Statement pass(database, "INSERT INTO pass VALUES(?, ?, ?, ?, ?, ?)");
  for (std::size_t i = 0; i < workload.passes.size(); ++i) {
    const MeasuredPass& p = workload.passes[i];
    if (static_cast<int>(p.load_of_gpu.size()) != workload.gpus)
      throw Error(fmt::format("pass {}", i), fmt::format("{} GPUs", p.load_of_gpu.size()),
                  fmt::format("{}", workload.gpus), "");
    Bytes loads;
    for (int index : p.load_of_gpu) {
      if (index < -1 || index >= static_cast<int>(workload.loads.size()))
        throw Error(fmt::format("pass {}", i), fmt::format("load {}", index),
                    "an index of a load, or -1", "");
      put_varint(loads, static_cast<std::uint32_t>(index + 1));
    }
    const std::string role = role_name(p.role);
    pass.bind(1, static_cast<std::int64_t>(i) + 1)
        .bind(2, std::int64_t{p.tokens})
        .bind(3, std::int64_t{p.layer});
    pass.bind(4, std::string_view(p.domain)).bind(5, std::string_view(role)).bind(6, loads).run();
  }
  transaction.commit();
}

void check_whole(Database& database) {
  check_schema(database);
  const std::string verdict = database.text("PRAGMA quick_check(1)");
  if (verdict != "ok") damaged(database.path(), "a damaged file (" + verdict + ")");
}

void sync_path(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fsync(descriptor);
    ::close(descriptor);
  }
}

}  // namespace ramp
