// SPDX-License-Identifier: Apache-2.0
#include "lab/measurements.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <unordered_map>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "lab/measurement_file.hpp"

namespace ramp {
namespace {

constexpr long long kMaxFileBytes = 1LL << 30;
constexpr long long kMaxTableCells = 20'000'000;  // configurations x loads: the table in memory

void check_file(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error)
    throw Error(path, error.message(), "a measurements file that can be read", "check the path");
  if (size > static_cast<std::uintmax_t>(kMaxFileBytes))
    throw Error(path, fmt::format("{} bytes", size), fmt::format("up to {}", kMaxFileBytes),
                "the file was not written by ramp");
}

}  // namespace

MeasuredSpace load_measurements(const std::string& path) {
  check_file(path);
  Database database(path, Database::Mode::kReadOnly);
  check_whole(database);
  Workload workload = read_head(read_meta(database), path);
  read_workload(database, workload);
  std::vector<std::int64_t> ids;
  std::vector<TimedConfig> configs = read_configs(database, &ids);

  MeasuredSpace space;
  space.provenance = std::move(workload.provenance);
  space.shape = workload.shape;
  space.gpus = workload.gpus;
  space.loads = std::move(workload.loads);
  space.passes = std::move(workload.passes);
  space.shipped = std::move(workload.shipped);
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
    for (std::size_t i = 0; i < taken.size() / kSampleBytes; ++i)
      samples.push_back(read_sample(taken, i).us);
  }
  try {
    check_space(space);
  } catch (const Error& e) {
    damaged(path, e.what());
  }
  return space;
}

std::vector<TimedConfig> load_configs(const std::string& path) {
  check_file(path);
  Database database(path, Database::Mode::kReadOnly);
  check_whole(database);
  return read_configs(database, nullptr);
}

CampaignRecord load_campaign_record(const std::string& path) {
  check_file(path);
  Database database(path, Database::Mode::kReadOnly);
  check_whole(database);
  CampaignRecord record;
  const std::map<std::string, std::string> meta = read_meta(database);
  if (const auto it = meta.find("campaign.options"); it != meta.end()) record.options = it->second;
  if (const auto it = meta.find("campaign.end"); it != meta.end()) record.end = it->second;
  std::vector<float> mhz;
  Statement row(database, "SELECT dropped, taken FROM sample");
  while (row.step()) {
    record.dropped += row.integer(0);
    const auto taken = row.blob(1);
    record.samples += static_cast<long long>(taken.size() / kSampleBytes);
    for (std::size_t i = 0; i < taken.size() / kSampleBytes; ++i)
      if (const float clock = read_sample(taken, i).sm_mhz; clock > 0) mhz.push_back(clock);
  }
  if (mhz.empty()) return record;
  std::sort(mhz.begin(), mhz.end());
  const std::span<const float> sorted = mhz;
  record.median_mhz = quantile_of_sorted(sorted, 0.5);
  record.low_mhz = quantile_of_sorted(sorted, 0.01);
  record.high_mhz = quantile_of_sorted(sorted, 0.99);
  return record;
}

void save_measurements(const MeasuredSpace& space, const std::string& path) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  try {
    MeasurementStore store(temporary, MeasurementStore::Durable::kAtClose);
    store.begin(
        {space.provenance, space.shape, space.gpus, space.loads, space.passes, space.shipped});
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
  switch (status) {
    case ConfigStatus::kNew:
      return "new";
    case ConfigStatus::kOk:
      return "ok";
    case ConfigStatus::kRefused:
      return "refused";
    case ConfigStatus::kWrong:
      return "wrong";
    case ConfigStatus::kQuarantined:
      return "quarantined";
  }
  return "new";
}

ConfigStatus parse_status(const std::string& text, const std::string& field) {
  for (ConfigStatus status : {ConfigStatus::kNew, ConfigStatus::kOk, ConfigStatus::kRefused,
                              ConfigStatus::kWrong, ConfigStatus::kQuarantined})
    if (text == status_name(status)) return status;
  throw Error(field, fmt::format("the status {}", text), "new, ok, refused, wrong or quarantined",
              "mend the file, or measure again");
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
