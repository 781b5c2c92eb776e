// SPDX-License-Identifier: Apache-2.0
#include "lab/measurements.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <unordered_map>

#include "base/error.hpp"
#include "lab/file_lock.hpp"
#include "lab/sqlite.hpp"

namespace ramp {
namespace {

constexpr std::int64_t kApplicationId = 0x72616d70;  // "ramp", in the file's header
constexpr std::int64_t kVersion = 1;

// Far above any campaign, far below what hurts.
constexpr long long kMaxFileBytes = 1LL << 30;
constexpr long long kMaxConfigs = 20'000;
constexpr long long kMaxLoads = 1'000'000;
constexpr long long kMaxPasses = 1'000'000;
constexpr long long kMaxTableCells = 20'000'000;  // configurations x loads: the table in memory
constexpr int kMaxExperts = 4096;
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

using Bytes = std::vector<unsigned char>;

// LEB128, as counts and indices are mostly below 128.
void put_varint(Bytes& bytes, std::uint32_t value) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<unsigned char>(value | 0x80));
  bytes.push_back(static_cast<unsigned char>(value));
}

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw Error(path, what, "a whole measurements file",
              "copy it again from where it came, or measure again with `ramp profile`");
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

// A sample is 6 bytes, little endian: us as float32, SM clock in MHz as uint16.
constexpr std::size_t kSampleBytes = 6;

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

bool is_time(float us) { return std::isfinite(us) && us > 0; }

constexpr std::pair<ConfigStatus, const char*> kStatusNames[] = {
    {ConfigStatus::kNew, "new"},
    {ConfigStatus::kOk, "ok"},
    {ConfigStatus::kRefused, "refused"},
    {ConfigStatus::kWrong, "wrong"},
    {ConfigStatus::kQuarantined, "quarantined"}};

ConfigStatus parse_status(const std::string& text, const std::string& path) {
  for (auto [status, name] : kStatusNames)
    if (text == name) return status;
  damaged(path, fmt::format("a configuration with the status {}", text));
}

struct MetaField {
  const char* key;
  std::string Provenance::*member;
};
constexpr MetaField kProvenanceFields[] = {
    {"model", &Provenance::model},     {"layout", &Provenance::layout},
    {"routing", &Provenance::routing}, {"gpu", &Provenance::gpu},
    {"driver", &Provenance::driver},   {"toolkit", &Provenance::toolkit},
    {"commit", &Provenance::commit},   {"date", &Provenance::date},
    {"sources", &Provenance::sources}, {"how", &Provenance::how},
};
struct ShapeField {
  const char* key;
  int LocalShape::*member;
};
constexpr ShapeField kShapeFields[] = {{"experts", &LocalShape::experts},
                                       {"top_k", &LocalShape::top_k},
                                       {"hidden", &LocalShape::hidden},
                                       {"intermediate", &LocalShape::intermediate}};

void create_schema(Database& database) {
  Transaction transaction(database);
  database.execute(fmt::format("PRAGMA application_id={}", kApplicationId).c_str());
  database.execute(fmt::format("PRAGMA user_version={}", kVersion).c_str());
  for (const TableSql& table : kTables) database.execute(table.sql);
  transaction.commit();
}

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

std::map<std::string, std::string> read_meta(Database& database) {
  limited(database, "SELECT count(*) FROM meta", 1000, "notes");
  std::map<std::string, std::string> meta;
  Statement statement(database, "SELECT key, value FROM meta");
  while (statement.step()) meta[statement.text(0)] = statement.text(1);
  return meta;
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

Traffic read_head(const std::map<std::string, std::string>& meta, const std::string& path) {
  Traffic traffic;
  for (const MetaField& field : kProvenanceFields) {
    const auto it = meta.find(field.key);
    if (it == meta.end()) damaged(path, fmt::format("a file without {}", field.key));
    traffic.provenance.*field.member = it->second;
  }
  for (const ShapeField& field : kShapeFields)
    traffic.shape.*field.member = whole_number(
        meta, field.key, 1, field.member == &LocalShape::experts ? kMaxExperts : 1 << 24, path);
  traffic.gpus = whole_number(meta, "gpus", 1, kMaxGpus, path);
  return traffic;
}

// Loads and passes; ids are 1, 2, 3, ... in the order of the vectors.
void read_traffic(Database& database, Traffic& traffic) {
  const std::string& path = database.path();
  const long long loads = limited(database, "SELECT count(*) FROM load", kMaxLoads, "loads");
  Statement load(database, "SELECT id, counts FROM load ORDER BY id");
  while (load.step()) {
    if (load.integer(0) != static_cast<std::int64_t>(traffic.loads.size()) + 1)
      damaged(path, "loads with a gap in their ids");
    traffic.loads.push_back(
        read_varints(load.blob(1), traffic.shape.experts, kMaxCount, path, "load"));
    if (!std::is_sorted(traffic.loads.back().rbegin(), traffic.loads.back().rend()))
      damaged(path, "a load that is not sorted");
  }
  limited(database, "SELECT count(*) FROM pass", kMaxPasses, "passes");
  Statement pass(database, "SELECT tokens, layer, domain, role, loads FROM pass ORDER BY id");
  while (pass.step()) {
    MeasuredPass p;
    const std::int64_t tokens = pass.integer(0), layer = pass.integer(1);
    if (tokens < 0 || tokens > kMaxCount || layer < 0 || layer > 1 << 20)
      damaged(path, "a pass with a size out of range");
    p.tokens = static_cast<int>(tokens);
    p.layer = static_cast<int>(layer);
    p.domain = pass.text(2);
    p.role = parse_role(pass.text(3), path);
    p.load_of_gpu =
        read_varints(pass.blob(4), traffic.gpus, static_cast<std::uint32_t>(loads), path, "pass");
    for (int& index : p.load_of_gpu) --index;  // 0 on disk: no token on that GPU
    traffic.passes.push_back(std::move(p));
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
    c.registers = static_cast<int>(row.integer(6));
    c.smem_bytes = static_cast<int>(row.integer(7));
    if (ids) ids->push_back(row.integer(8));
    configs.push_back(std::move(c));
  }
  return configs;
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

void write_traffic(Database& database, const Traffic& traffic) {
  if (traffic.shape.experts < 1 || traffic.shape.experts > kMaxExperts)
    throw Error("experts on a GPU", std::to_string(traffic.shape.experts),
                fmt::format("1 to {}", kMaxExperts), "");
  Transaction transaction(database);
  Statement meta(database, "INSERT OR REPLACE INTO meta VALUES(?, ?)");
  for (const MetaField& field : kProvenanceFields)
    meta.bind(1, std::string_view(field.key))
        .bind(2, std::string_view(traffic.provenance.*field.member))
        .run();
  for (const ShapeField& field : kShapeFields) {
    const std::string value = std::to_string(traffic.shape.*field.member);
    meta.bind(1, std::string_view(field.key)).bind(2, std::string_view(value)).run();
  }
  const std::string gpus = std::to_string(traffic.gpus);
  meta.bind(1, std::string_view("gpus")).bind(2, std::string_view(gpus)).run();
  Statement load(database, "INSERT INTO load VALUES(?, ?)");
  for (std::size_t i = 0; i < traffic.loads.size(); ++i) {
    check_counts(traffic.loads[i], traffic.shape.experts, i);
    const Bytes counts = pack_counts(traffic.loads[i]);
    load.bind(1, static_cast<std::int64_t>(i) + 1).bind(2, counts).run();
  }
  Statement pass(database, "INSERT INTO pass VALUES(?, ?, ?, ?, ?, ?)");
  for (std::size_t i = 0; i < traffic.passes.size(); ++i) {
    const MeasuredPass& p = traffic.passes[i];
    if (static_cast<int>(p.load_of_gpu.size()) != traffic.gpus)
      throw Error(fmt::format("pass {}", i), fmt::format("{} GPUs", p.load_of_gpu.size()),
                  fmt::format("{}", traffic.gpus), "");
    Bytes loads;
    for (int index : p.load_of_gpu) {
      if (index < -1 || index >= static_cast<int>(traffic.loads.size()))
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

void check_file(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error)
    throw Error(path, error.message(), "a measurements file that can be read", "check the path");
  if (size > static_cast<std::uintmax_t>(kMaxFileBytes))
    throw Error(path, fmt::format("{} bytes", size), fmt::format("up to {}", kMaxFileBytes),
                "the file was not written by ramp");
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

}  // namespace

struct MeasurementStore::State {
  explicit State(const std::string& path) : lock(path), database(path, Database::Mode::kCreate) {}

  std::int64_t config_id(const std::string& label) const {
    const auto it = ids.find(label);
    if (it == ids.end())
      throw Error("configuration", label, "a label that the store knows", "put it first");
    return it->second;
  }

  FileLock lock;
  mutable Database database;
  Traffic traffic;
  bool has_traffic = false;
  std::unordered_map<std::string, std::int64_t> ids;
};

MeasurementStore::MeasurementStore(const std::string& path, Durable durable) {
  if (path.empty()) throw Error("-o", "an empty path", "a file name", "");
  state_ = std::make_unique<State>(path);
  Database& database = state_->database;
  if (durable == Durable::kAtClose) database.execute("PRAGMA synchronous=OFF");
  if (database.integer("SELECT count(*) FROM sqlite_schema") == 0 &&
      database.integer("PRAGMA user_version") == 0) {
    database.execute("PRAGMA page_size=4096");
    create_schema(database);
  } else {
    check_whole(database);
  }
  if (durable == Durable::kEveryBatch) {
    database.execute("PRAGMA journal_mode=WAL");
    database.execute("PRAGMA synchronous=FULL");
  }
  const auto meta = read_meta(database);
  state_->has_traffic = meta.count("gpus") > 0;
  if (state_->has_traffic) {
    state_->traffic = read_head(meta, path);
    read_traffic(database, state_->traffic);
  }
  std::vector<std::int64_t> ids;
  const std::vector<TimedConfig> configs = read_configs(database, &ids);
  for (std::size_t i = 0; i < configs.size(); ++i) state_->ids[configs[i].candidate.label] = ids[i];
}

MeasurementStore::MeasurementStore(MeasurementStore&&) noexcept = default;

MeasurementStore::~MeasurementStore() {
  if (!state_) return;
  // Best effort: where it fails (a full disk) the log stays beside the file and nothing is lost.
  sqlite3_exec(state_->database.handle(), "PRAGMA journal_mode=DELETE", nullptr, nullptr, nullptr);
}

bool MeasurementStore::is_new() const { return !state_->has_traffic; }

void MeasurementStore::begin(const Traffic& traffic) {
  Traffic& stored = state_->traffic;
  const std::string& path = state_->database.path();
  if (!state_->has_traffic) {
    write_traffic(state_->database, traffic);
    stored = traffic;
    state_->has_traffic = true;
    return;
  }
  const auto differs = [&](const std::string& field, const std::string& has,
                           const std::string& now) {
    throw Error(path, fmt::format("{} {}, where the file has {}", field, now, has),
                "what the file was begun with",
                "go on with the same options and machine, or give another -o");
  };
  for (const MetaField& field : kProvenanceFields) {
    const std::string key = field.key;
    if (key == "date" || key == "commit")
      continue;  // a campaign may go on another day; `sources` says if kernels changed
    if (stored.provenance.*field.member != traffic.provenance.*field.member)
      differs(key, stored.provenance.*field.member, traffic.provenance.*field.member);
  }
  for (const ShapeField& field : kShapeFields)
    if (stored.shape.*field.member != traffic.shape.*field.member)
      differs(field.key, std::to_string(stored.shape.*field.member),
              std::to_string(traffic.shape.*field.member));
  if (stored.gpus != traffic.gpus)
    differs("gpus", std::to_string(stored.gpus), std::to_string(traffic.gpus));
  const auto same_pass = [](const MeasuredPass& a, const MeasuredPass& b) {
    return a.tokens == b.tokens && a.layer == b.layer && a.domain == b.domain && a.role == b.role &&
           a.load_of_gpu == b.load_of_gpu;
  };
  if (stored.loads != traffic.loads ||
      !std::equal(stored.passes.begin(), stored.passes.end(), traffic.passes.begin(),
                  traffic.passes.end(), same_pass))
    differs("traffic",
            fmt::format("other passes ({} of them, {} loads)", stored.passes.size(),
                        stored.loads.size()),
            fmt::format("of {} passes and {} loads", traffic.passes.size(), traffic.loads.size()));
}

void MeasurementStore::put(std::span<const TimedConfig> configs) {
  Database& database = state_->database;
  Transaction transaction(database);
  Statement row(
      database,
      "INSERT INTO config(label, knobs, grid, occupancy, status, reason, registers, smem) "
      "VALUES(?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(label) DO UPDATE SET status = excluded.status, "
      "reason = excluded.reason, registers = excluded.registers, smem = excluded.smem RETURNING "
      "id");
  std::vector<std::int64_t> ids;
  for (const TimedConfig& c : configs) {
    if (c.candidate.label.empty())
      throw Error("configuration", "an empty label", "a unique label", "");
    const std::string grid = grid_text(c.candidate.grid), status = status_name(c.status);
    row.bind(1, std::string_view(c.candidate.label)).bind(2, std::string_view(c.candidate.knobs));
    row.bind(3, std::string_view(grid)).bind(4, std::string_view(c.candidate.occupancy));
    row.bind(5, std::string_view(status)).bind(6, std::string_view(c.reason));
    row.bind(7, std::int64_t{c.registers}).bind(8, std::int64_t{c.smem_bytes});
    if (row.step()) ids.push_back(row.integer(0));
    row.run();
  }
  transaction.commit();
  for (std::size_t i = 0; i < configs.size(); ++i) state_->ids[configs[i].candidate.label] = ids[i];
}

void MeasurementStore::set_status(const std::string& label, ConfigStatus status,
                                  const std::string& reason) {
  const std::int64_t id = state_->config_id(label);
  Transaction transaction(state_->database);
  Statement row(state_->database, "UPDATE config SET status = ?, reason = ? WHERE id = ?");
  const std::string name = status_name(status);
  row.bind(1, std::string_view(name)).bind(2, std::string_view(reason)).bind(3, id).run();
  transaction.commit();
}

std::vector<TimedConfig> MeasurementStore::configs() const {
  return read_configs(state_->database, nullptr);
}

void MeasurementStore::append(std::span<const CellSamples> batch) {
  Database& database = state_->database;
  Transaction transaction(database);
  Statement old(database, "SELECT dropped, taken FROM sample WHERE config = ? AND load = ?");
  Statement row(database, "INSERT OR REPLACE INTO sample VALUES(?, ?, ?, ?)");
  for (const CellSamples& cell : batch) {
    if (cell.load < 0 || cell.load >= static_cast<int>(state_->traffic.loads.size()))
      throw Error("load", std::to_string(cell.load),
                  fmt::format("0 to {}", state_->traffic.loads.size()), "");
    const std::int64_t config = state_->config_id(cell.label), load = cell.load + 1;
    std::int64_t dropped = 0;
    Bytes taken;
    if (old.bind(1, config).bind(2, load).step()) {
      dropped = old.integer(0);
      const auto bytes = old.blob(1);
      taken.assign(bytes.begin(), bytes.end());
    }
    old.reset();
    for (const Sample& sample : cell.samples) {
      if (sample.throttled) {
        ++dropped;
      } else if (is_time(sample.us)) {
        put_sample(taken, sample);
      } else {
        throw Error("time of " + cell.label, std::to_string(sample.us), "microseconds above 0", "");
      }
    }
    row.bind(1, config).bind(2, load).bind(3, dropped).bind(4, taken).run();
  }
  transaction.commit();
}

int MeasurementStore::count(const std::string& label, int load) const {
  Statement row(state_->database, "SELECT length(taken) FROM sample WHERE config = ? AND load = ?");
  row.bind(1, state_->config_id(label)).bind(2, std::int64_t{load} + 1);
  return row.step() ? static_cast<int>(row.integer(0) / static_cast<std::int64_t>(kSampleBytes))
                    : 0;
}

std::vector<float> MeasurementStore::samples(const std::string& label, int load) const {
  Statement row(state_->database, "SELECT taken FROM sample WHERE config = ? AND load = ?");
  row.bind(1, state_->config_id(label)).bind(2, std::int64_t{load} + 1);
  std::vector<float> us;
  if (row.step()) {
    const auto taken = row.blob(0);
    for (std::size_t i = 0; i < taken.size() / kSampleBytes; ++i)
      us.push_back(read_sample(taken, i).us);
  }
  return us;
}

long long MeasurementStore::cells() const {
  return state_->database.integer("SELECT count(*) FROM sample WHERE length(taken) > 0");
}

long long MeasurementStore::dropped() const {
  return state_->database.integer("SELECT sum(dropped) FROM sample");
}

float MeasurementStore::median_mhz() const {
  std::vector<float> mhz;
  Statement row(state_->database, "SELECT taken FROM sample");
  while (row.step()) {
    const auto taken = row.blob(0);
    for (std::size_t i = 0; i < taken.size() / kSampleBytes; ++i)
      if (const float clock = read_sample(taken, i).sm_mhz; clock > 0) mhz.push_back(clock);
  }
  if (mhz.empty()) return 0;
  std::nth_element(mhz.begin(), mhz.begin() + static_cast<std::ptrdiff_t>(mhz.size() / 2),
                   mhz.end());
  return mhz[mhz.size() / 2];
}

void MeasurementStore::set_note(const std::string& name, const std::string& value) {
  Transaction transaction(state_->database);
  const std::string key = "campaign." + name;
  Statement row(state_->database, "INSERT OR REPLACE INTO meta VALUES(?, ?)");
  row.bind(1, std::string_view(key)).bind(2, std::string_view(value)).run();
  transaction.commit();
}

std::optional<std::string> MeasurementStore::note(const std::string& name) const {
  const std::string key = "campaign." + name;
  Statement row(state_->database, "SELECT value FROM meta WHERE key = ?");
  row.bind(1, std::string_view(key));
  if (!row.step()) return std::nullopt;
  return row.text(0);
}

void MeasurementStore::close() {
  Database& database = state_->database;
  database.execute("PRAGMA wal_checkpoint(TRUNCATE)");
  database.execute("PRAGMA journal_mode=DELETE");
  // Rewriting needs as much free space again; where that is missing the file is complete all the
  // same, only larger.
  sqlite3_exec(database.handle(), "VACUUM", nullptr, nullptr, nullptr);
  const std::string path = database.path();
  state_.reset();
  sync_path(path);
}

MeasuredSpace load_measurements(const std::string& path) {
  check_file(path);
  Database database(path, Database::Mode::kReadOnly);
  check_whole(database);
  Traffic traffic = read_head(read_meta(database), path);
  read_traffic(database, traffic);
  std::vector<std::int64_t> ids;
  std::vector<TimedConfig> configs = read_configs(database, &ids);

  MeasuredSpace space;
  space.provenance = std::move(traffic.provenance);
  space.shape = traffic.shape;
  space.gpus = traffic.gpus;
  space.loads = std::move(traffic.loads);
  space.passes = std::move(traffic.passes);
  std::unordered_map<std::int64_t, std::size_t>
      place;  // config id -> candidate; -1 for those that are not ok
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const bool ok = configs[i].status == ConfigStatus::kOk;
    place[ids[i]] = ok ? space.candidates.size() : static_cast<std::size_t>(-1);
    if (ok) space.candidates.push_back(std::move(configs[i].candidate));
  }
  if (static_cast<long long>(space.candidates.size()) * static_cast<long long>(space.loads.size()) >
      kMaxTableCells)
    throw Error(
        path,
        fmt::format("{} configurations x {} loads", space.candidates.size(), space.loads.size()),
        fmt::format("a product up to {}", kMaxTableCells), "profile fewer passes");
  space.samples.assign(space.candidates.size(),
                       std::vector<std::vector<float>>(space.loads.size()));

  Statement row(database, "SELECT config, load, taken FROM sample");
  while (row.step()) {
    const auto config = place.find(row.integer(0));
    const std::int64_t load = row.integer(1);
    const auto taken = row.blob(2);
    if (config == place.end() || load < 1 || load > static_cast<std::int64_t>(space.loads.size()) ||
        taken.size() % kSampleBytes != 0)
      damaged(path, "samples that belong to nothing in it");
    if (config->second == static_cast<std::size_t>(-1)) continue;
    auto& samples = space.samples[config->second][static_cast<std::size_t>(load) - 1];
    for (std::size_t i = 0; i < taken.size() / kSampleBytes; ++i) {
      const float us = read_sample(taken, i).us;
      if (!is_time(us)) damaged(path, fmt::format("a time of {} us", us));
      samples.push_back(us);
    }
  }
  return space;
}

std::vector<TimedConfig> load_configs(const std::string& path) {
  check_file(path);
  Database database(path, Database::Mode::kReadOnly);
  check_whole(database);
  return read_configs(database, nullptr);
}

void save_measurements(const MeasuredSpace& space, const std::string& path) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  try {
    MeasurementStore store(temporary, MeasurementStore::Durable::kAtClose);
    store.begin({space.provenance, space.shape, space.gpus, space.loads, space.passes});
    std::vector<TimedConfig> configs;
    for (const Candidate& candidate : space.candidates)
      configs.push_back({candidate, ConfigStatus::kOk});
    store.put(configs);
    if (store.configs().size() != configs.size())
      throw Error("configurations", "two with one label", "unique labels", "");
    for (std::size_t c = 0; c < space.samples.size(); ++c) {
      std::vector<CellSamples> batch;
      for (std::size_t l = 0; l < space.samples[c].size(); ++l) {
        if (space.samples[c][l].empty()) continue;
        batch.push_back({space.candidates.at(c).label, static_cast<int>(l), {}});
        for (float us : space.samples[c][l]) batch.back().samples.push_back({us, 0, false});
      }
      store.append(batch);
    }
    store.close();
    std::filesystem::rename(temporary, path);
  } catch (const std::filesystem::filesystem_error& e) {
    std::filesystem::remove(temporary, ignored);
    throw Error(path, e.code().message(), "a file in a folder that can be written",
                "check permissions, or give another -o");
  } catch (...) {
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  sync_path(folder.empty() ? "." : folder.string());
}

std::string status_name(ConfigStatus status) {
  for (auto [value, name] : kStatusNames)
    if (value == status) return name;
  return "new";
}

std::string role_name(Role role) {
  return role == Role::kTrain ? "train" : role == Role::kTest ? "test" : "uniform";
}

Role parse_role(const std::string& text, const std::string& field) {
  for (Role role : {Role::kTrain, Role::kTest, Role::kUniform})
    if (text == role_name(role)) return role;
  throw Error(field, fmt::format("the role {}", text), "train, test or uniform",
              "mend the file, or measure again");
}

std::string grid_text(const Grid& grid) {
  std::string text;
  for (int p = 0; p < grid.phases; ++p)
    text += fmt::format("{}{}x{}x{}", p ? "+" : "", grid.phase[p].rows, grid.phase[p].col_tiles,
                        grid.phase[p].slots);
  return text;
}

Grid parse_grid(const std::string& text, const std::string& field) {
  Grid grid;
  grid.phases = 0;
  const char* at = text.data();
  const char* end = at + text.size();
  bool good = true;
  const auto number = [&](int& value, char before) {
    if (before && (at == end || *at++ != before)) return false;
    const auto [next, error] = std::from_chars(at, end, value);
    at = next;
    return error == std::errc() && value >= 1 && value <= 1 << 20;
  };
  while (good && grid.phases < Grid::kMaxPhases && (at != end || grid.phases == 0)) {
    Phase& phase = grid.phase[grid.phases];
    good = number(phase.rows, grid.phases ? '+' : 0) && number(phase.col_tiles, 'x') &&
           number(phase.slots, 'x');
    ++grid.phases;
  }
  if (!good || at != end)
    throw Error(field, fmt::format("the grid {}", text),
                "ROWSxCOL_TILESxSLOTS, a second phase after a +, e.g. 8x4x132", "mend it");
  return grid;
}

}  // namespace ramp
