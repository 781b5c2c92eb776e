// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "lab/file_lock.hpp"
#include "lab/measurement_file.hpp"
#include "lab/measurements.hpp"

namespace ramp {

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
  Workload workload;
  bool has_workload = false;
  bool is_ours = false;  // created here: removed again when nothing came of it
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
    state_->is_ours = true;
  } else {
    check_whole(database);
  }
  if (durable == Durable::kEveryBatch) {
    database.execute("PRAGMA journal_mode=WAL");
    database.execute("PRAGMA synchronous=FULL");
  }
  const auto meta = read_meta(database);
  state_->has_workload = meta.count("gpus") > 0;
  if (state_->has_workload) {
    state_->workload = read_head(meta, path);
    read_workload(database, state_->workload);
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
  if (state_->is_ours && !state_->has_workload) ::unlink(state_->database.path().c_str());
}

bool MeasurementStore::is_new() const { return !state_->has_workload; }

void MeasurementStore::begin(const Workload& workload) {
  Workload& stored = state_->workload;
  const std::string& path = state_->database.path();
  if (!state_->has_workload) {
    write_workload(state_->database, workload);
    stored = workload;
    state_->has_workload = true;
    return;
  }
  const auto differs = [&](const std::string& field, const std::string& has,
                           const std::string& now) {
    throw Error(path, fmt::format("{} {}, where the file has {}", field, now, has),
                "what the file was begun with",
                "go on with the same options and machine, or give another -o");
  };
  for (const ProvenanceField& field : provenance_fields()) {
    const std::string key = field.key;
    if (key == "date" || key == "commit")
      continue;  // a campaign may go on another day; `sources` says if kernels changed
    if (stored.provenance.*field.member != workload.provenance.*field.member)
      differs(key, stored.provenance.*field.member, workload.provenance.*field.member);
  }
  for (const ShapeField& field : shape_fields())
    if (stored.shape.*field.member != workload.shape.*field.member)
      differs(field.key, std::to_string(stored.shape.*field.member),
              std::to_string(workload.shape.*field.member));
  if (stored.gpus != workload.gpus)
    differs("gpus", std::to_string(stored.gpus), std::to_string(workload.gpus));
  const auto same_pass = [](const MeasuredPass& a, const MeasuredPass& b) {
    return a.tokens == b.tokens && a.layer == b.layer && a.domain == b.domain && a.role == b.role &&
           a.load_of_gpu == b.load_of_gpu;
  };
  if (stored.loads != workload.loads ||
      !std::equal(stored.passes.begin(), stored.passes.end(), workload.passes.begin(),
                  workload.passes.end(), same_pass))
    differs(
        "workload",
        fmt::format("other passes ({} of them, {} loads)", stored.passes.size(),
                    stored.loads.size()),
        fmt::format("of {} passes and {} loads", workload.passes.size(), workload.loads.size()));
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
    row.bind(7, std::int64_t{c.candidate.registers}).bind(8, std::int64_t{c.candidate.smem_bytes});
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
    if (cell.load < 0 || cell.load >= static_cast<int>(state_->workload.loads.size()))
      throw Error("load", std::to_string(cell.load),
                  fmt::format("0 to {}", state_->workload.loads.size()), "");
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
      } else if (std::isfinite(sample.us) && sample.us > 0) {
        put_sample(taken, sample);
      } else {
        throw Error("time of " + cell.label, std::to_string(sample.us), "microseconds above 0", "");
      }
    }
    row.bind(1, config).bind(2, load).bind(3, dropped).bind(4, taken).run();
  }
  transaction.commit();
}

std::vector<StoredCell> MeasurementStore::cells_taken() const {
  std::vector<StoredCell> cells;
  Statement row(state_->database,
                "SELECT label, load, dropped, taken FROM sample JOIN config ON config.id = config");
  while (row.step()) {
    StoredCell& cell = cells.emplace_back();
    cell.label = row.text(0);
    cell.load = static_cast<int>(row.integer(1)) - 1;
    cell.dropped = static_cast<int>(row.integer(2));
    const auto taken = row.blob(3);
    for (std::size_t i = 0; i < taken.size() / kSampleBytes; ++i)
      cell.us.push_back(read_sample(taken, i).us);
  }
  return cells;
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
  return mhz.empty() ? 0 : median(std::move(mhz));
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

}  // namespace ramp
