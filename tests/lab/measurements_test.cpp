// SPDX-License-Identifier: Apache-2.0
#include "lab/measurements.hpp"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "tests/lab/measured_example.hpp"

namespace ramp {
namespace {

MeasuredSpace example_space(int passes = 40) {
  const Workload workload = example_workload(passes);
  MeasuredSpace space;
  space.provenance = workload.provenance;
  space.provenance.gpu = "NVIDIA H200";
  space.provenance.sources = "00ff";
  space.shape = workload.shape;
  space.gpus = workload.gpus;
  space.loads = workload.loads;
  space.passes = workload.passes;
  space.passes[0].load_of_gpu[1] = -1;
  for (int rows : {8, 16, 32}) space.candidates.push_back(example_config(rows, 4).candidate);
  space.candidates[2].grid.phases = 2;
  space.candidates[2].grid.phase[1] = {64, 16, 264};
  space.samples.assign(3, std::vector<std::vector<float>>(space.loads.size()));
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t l = c; l < space.loads.size(); ++l)
      space.samples[c][l] = {10.5f + 0.25f * l, 10.75f + 0.25f * l, 1.0f / (3 + l)};
  return space;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

void run_sql(const std::string& path, const char* sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  sqlite3_exec(database, "PRAGMA synchronous=OFF", nullptr, nullptr, nullptr);
  EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(database);
  sqlite3_close(database);
}

TEST(Measurements, ReadBackAsTheyWereWritten) {
  ScratchFolder folder;
  const MeasuredSpace space = example_space();
  save_measurements(space, folder.file("a.rmeas"));
  expect_equal(load_measurements(folder.file("a.rmeas")), space);
}

TEST(Measurements, AreOneFileAndNothingBesideIt) {
  ScratchFolder folder;
  save_measurements(example_space(), folder.file("a.rmeas"));
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path()))
    ++files;
  EXPECT_EQ(files, 1);
}

TEST(Measurements, OfARealCampaignStayUnderOnePointFiveMegabytes) {
  ScratchFolder folder;
  MeasuredSpace space = example_space(2000);
  while (space.loads.size() > 500) space.loads.pop_back();
  for (int i = 0; space.loads.size() < 500; ++i) {
    space.loads.push_back(std::vector<int>(8, 0));
    space.loads.back()[0] = 100'000 + i;
  }
  space.passes.resize(500);
  for (MeasuredPass& pass : space.passes)
    for (int& load : pass.load_of_gpu) load %= 500;
  space.candidates.clear();
  for (int c = 0; c < 80; ++c) space.candidates.push_back(example_config(8 + c, 4).candidate);
  std::mt19937 random(7);
  space.samples.assign(80, std::vector<std::vector<float>>(500));
  for (auto& loads : space.samples)
    for (auto& samples : loads)
      for (int s = 0; s < 3; ++s) samples.push_back(5 + 1e-4f * (random() % 1'000'000));
  save_measurements(space, folder.file("a.rmeas"));
  EXPECT_LT(std::filesystem::file_size(folder.file("a.rmeas")), 1'300'000u);
  expect_equal(load_measurements(folder.file("a.rmeas")), space);
}

TEST(Measurements, ReadFromAFolderThatCannotBeWritten) {
  ScratchFolder folder;
  const MeasuredSpace space = example_space();
  save_measurements(space, folder.file("a.rmeas"));
  ::chmod(folder.file("a.rmeas").c_str(), 0444);
  ::chmod(folder.path().c_str(), 0555);
  // Root may write anywhere: read as nobody where we are root.
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) ::_exit(2);
    try {
      ::_exit(load_measurements(folder.file("a.rmeas")).loads == space.loads ? 0 : 1);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      ::_exit(3);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::chmod(folder.path().c_str(), 0755);
  EXPECT_EQ(status, 0);
}

TEST(Measurements, RefuseAMissingFileByItsName) {
  EXPECT_NE(error_of([] { load_measurements("/no/such/file.rmeas"); }).find("/no/such/file.rmeas"),
            std::string::npos);
}

TEST(Measurements, RefuseFilesOfOtherKinds) {
  ScratchFolder folder;
  write_bytes(folder.file("text"), std::string(5000, 'x'));
  EXPECT_NE(error_of([&] { load_measurements(folder.file("text")); }).find("another kind"),
            std::string::npos);
  write_bytes(folder.file("empty"), "");
  EXPECT_NE(error_of([&] { load_measurements(folder.file("empty")); }).find("another program"),
            std::string::npos);
  run_sql(folder.file("other"), "CREATE TABLE t(x)");
  EXPECT_NE(error_of([&] { load_measurements(folder.file("other")); }).find("another program"),
            std::string::npos);
  EXPECT_NE(error_of([&] { MeasurementStore store(folder.file("other")); }).find("another program"),
            std::string::npos);
  EXPECT_NE(error_of([&] { load_measurements(folder.path()); }), "");
}

TEST(Measurements, RefuseANewerVersionAndSayWhichTheyKnow) {
  ScratchFolder folder;
  save_measurements(example_space(), folder.file("a.rmeas"));
  run_sql(folder.file("a.rmeas"), "PRAGMA user_version=2");
  const std::string error = error_of([&] { load_measurements(folder.file("a.rmeas")); });
  EXPECT_NE(error.find("format version 2"), std::string::npos);
  EXPECT_NE(error.find("newer ramp"), std::string::npos);
}

TEST(Measurements, RefuseASchemaWithCodeInIt) {
  ScratchFolder folder;
  save_measurements(example_space(), folder.file("a.rmeas"));
  run_sql(folder.file("a.rmeas"),
          "CREATE VIEW v AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT * "
          "FROM n");
  EXPECT_NE(error_of([&] { load_measurements(folder.file("a.rmeas")); }).find("tables of others"),
            std::string::npos);
}

TEST(Measurements, RefuseRowsThatCannotBeTrue) {
  ScratchFolder folder;
  const char* const lies[] = {"UPDATE meta SET value = '-3' WHERE key = 'experts'",
                              "UPDATE meta SET value = '99999999' WHERE key = 'experts'",
                              "UPDATE meta SET value = '7' WHERE key = 'experts'",
                              "UPDATE meta SET value = '8 ' WHERE key = 'experts'",
                              "DELETE FROM meta WHERE key = 'gpus'",
                              "DELETE FROM meta WHERE key = 'routing'",
                              "UPDATE load SET counts = x'' WHERE id = 2",
                              "UPDATE load SET counts = x'0102030405060708' WHERE id = 2",
                              "UPDATE load SET counts = x'ffffffffffffffffffffffff' WHERE id = 2",
                              "UPDATE load SET counts = 'text' WHERE id = 2",
                              "DELETE FROM load WHERE id = 2",
                              "UPDATE pass SET loads = x'7f7f' WHERE id = 1",
                              "UPDATE pass SET role = 'guess' WHERE id = 1",
                              "UPDATE pass SET tokens = -1 WHERE id = 1",
                              "UPDATE config SET grid = '8x4' WHERE id = 1",
                              "UPDATE config SET grid = '8x4x132+8x4x132+8x4x132' WHERE id = 1",
                              "UPDATE config SET status = 'fine' WHERE id = 1",
                              "UPDATE sample SET taken = x'00' WHERE config = 1",
                              "UPDATE sample SET taken = x'000000000000' WHERE config = 1",
                              "UPDATE sample SET taken = x'0000c07f0000' WHERE config = 1",
                              "INSERT INTO sample VALUES(9, 1, 0, x'')",
                              "INSERT INTO sample VALUES(1, 9999, 0, x'')",
                              "INSERT INTO sample VALUES(1, 0, 0, x'')"};
  save_measurements(example_space(), folder.file("true.rmeas"));
  const std::string truth = bytes_of(folder.file("true.rmeas"));
  for (const char* lie : lies) {
    write_bytes(folder.file("a.rmeas"), truth);
    run_sql(folder.file("a.rmeas"), lie);
    EXPECT_THROW(load_measurements(folder.file("a.rmeas")), Error) << lie;
  }
}

TEST(Measurements, DamagedAnywhereNeverCrashAndNeverAddNumbers) {
  ScratchFolder folder;
  const MeasuredSpace space = example_space();
  save_measurements(space, folder.file("whole"));
  const std::string whole = bytes_of(folder.file("whole"));
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 150; ++i) {
    std::string bytes = whole;
    if (i % 3 == 0) {
      bytes.resize(random() % bytes.size());
    } else {
      for (int flips = 0; flips < 20; ++flips)
        bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    }
    write_bytes(folder.file("broken"), bytes);
    try {
      const MeasuredSpace read = load_measurements(folder.file("broken"));
      // What reads has the geometry that it claims.
      for (const auto& load : read.loads)
        EXPECT_EQ(load.size(), static_cast<std::size_t>(read.shape.experts));
      for (const auto& pass : read.passes)
        EXPECT_EQ(pass.load_of_gpu.size(), static_cast<std::size_t>(read.gpus));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 50);
}

TEST(Measurements, SaveRefusesWhatItCouldNotReadBack) {
  ScratchFolder folder;
  MeasuredSpace space = example_space();
  std::reverse(space.loads[5].begin(), space.loads[5].end());
  EXPECT_NE(error_of([&] { save_measurements(space, folder.file("a")); }).find("load 5"),
            std::string::npos);
  space = example_space();
  space.candidates[1].label = space.candidates[0].label;
  EXPECT_NE(error_of([&] { save_measurements(space, folder.file("a")); }).find("one label"),
            std::string::npos);
  space = example_space();
  space.passes[3].load_of_gpu[0] = 12345;
  EXPECT_NE(error_of([&] { save_measurements(space, folder.file("a")); }).find("pass 3"),
            std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(MeasurementStore, GoesOnWhereItStopped) {
  ScratchFolder folder;
  const Workload workload = example_workload(20);
  const std::vector<TimedConfig> configs = {example_config(8, 4),
                                            example_config(16, 4, ConfigStatus::kNew)};
  {
    MeasurementStore store(folder.file("a.rmeas"));
    EXPECT_TRUE(store.is_new());
    store.begin(workload);
    store.put(configs);
    store.append(
        std::vector<CellSamples>{{"f1-r8-q4", 3, {{9.5f, 1980, false}, {50.f, 900, true}}}});
    store.set_note("phase", "anchors");
  }
  MeasurementStore store(folder.file("a.rmeas"));
  EXPECT_FALSE(store.is_new());
  store.begin(workload);
  EXPECT_EQ(store.note("phase"), "anchors");
  EXPECT_EQ(store.note("nothing"), std::nullopt);
  EXPECT_EQ(store.count("f1-r8-q4", 3), 1);
  EXPECT_EQ(store.count("f1-r8-q4", 4), 0);
  EXPECT_EQ(store.dropped(), 1);
  EXPECT_EQ(store.median_mhz(), 1980);
  store.append(std::vector<CellSamples>{{"f1-r8-q4", 3, {{9.75f, 1980, false}}}});
  EXPECT_EQ(store.samples("f1-r8-q4", 3), (std::vector<float>{9.5f, 9.75f}));
  store.set_status("f1-r16-q4", ConfigStatus::kQuarantined, "hung");
  EXPECT_EQ(store.configs()[1].reason, "hung");
  store.close();
  EXPECT_EQ(load_measurements(folder.file("a.rmeas")).candidates.size(),
            1u);  // the quarantined one is no candidate
  EXPECT_EQ(load_configs(folder.file("a.rmeas")).size(), 2u);
}

TEST(MeasurementStore, ReadsWhileItGrows) {
  ScratchFolder folder;
  MeasurementStore store(folder.file("a.rmeas"));
  store.begin(example_workload(20));
  store.put(std::vector<TimedConfig>{example_config(8, 4)});
  store.append(std::vector<CellSamples>{{"f1-r8-q4", 0, {{9.5f, 0, false}}}});
  EXPECT_EQ(load_measurements(folder.file("a.rmeas")).samples[0][0], std::vector<float>{9.5f});
}

TEST(MeasurementStore, ThatNeverBeganLeavesNoFile) {
  ScratchFolder folder;
  { MeasurementStore store(folder.file("a.rmeas")); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(MeasurementStore, RefusesASecondWriterAndNamesTheFirst) {
  ScratchFolder folder;
  MeasurementStore store(folder.file("a.rmeas"));
  const std::string error = error_of([&] { MeasurementStore second(folder.file("a.rmeas")); });
  EXPECT_NE(error.find("process " + std::to_string(::getpid())), std::string::npos) << error;
}

TEST(MeasurementStore, WaitsForALockThatADeadWriterLeftToItsChild) {
  // A campaign killed while it starts a worker: the child holds the lock until its exec.
  ScratchFolder folder;
  const std::string path = folder.file("a.rmeas");
  const pid_t writer = ::fork();
  if (writer == 0) {
    MeasurementStore store(path);
    if (::fork() == 0) {
      ::usleep(300'000);
      ::_exit(0);
    }
    ::raise(SIGKILL);
  }
  ::waitpid(writer, nullptr, 0);
  MeasurementStore store(path);
  EXPECT_NE(error_of([&] { MeasurementStore second(path); }), "");
}

TEST(MeasurementStore, RefusesOtherTrafficAndSaysWhatDiffers) {
  ScratchFolder folder;
  {
    MeasurementStore store(folder.file("a.rmeas"));
    Workload workload = example_workload(20);
    workload.provenance.gpu = "simulated";
    store.begin(workload);
  }
  MeasurementStore store(folder.file("a.rmeas"));
  Workload other = example_workload(20);
  other.provenance.gpu = "NVIDIA H200";  // a simulation never mixes with a measurement
  EXPECT_NE(
      error_of([&] { store.begin(other); }).find("gpu NVIDIA H200, where the file has simulated"),
      std::string::npos);
  other = example_workload(21);
  other.provenance.gpu = "simulated";
  EXPECT_NE(error_of([&] { store.begin(other); }).find("workload"), std::string::npos);
  other = example_workload(20);
  other.provenance.gpu = "simulated";
  other.provenance.date = "2030-01-01";  // another day is no other campaign
  store.begin(other);
}

TEST(MeasurementStore, KilledInTheMiddleOfABatchKeepsAllBeforeIt) {
  ScratchFolder folder;
  const std::string path = folder.file("a.rmeas");
  const Workload workload = example_workload(20);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    MeasurementStore store(path);
    store.begin(workload);
    store.put(std::vector<TimedConfig>{example_config(8, 4)});
    for (int round = 0;; ++round) {  // until it is killed
      std::vector<CellSamples> batch;
      for (int load = 0; load < 20; ++load)
        batch.push_back({"f1-r8-q4", load, {{1.f + round, 0, false}}});
      store.append(batch);
      if (::write(pipe[1], "x", 1) != 1) ::_exit(1);
    }
  }
  char told = 0;
  for (int i = 0; i < 5; ++i) ASSERT_EQ(::read(pipe[0], &told, 1), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  MeasurementStore store(path);
  const int rounds = store.count("f1-r8-q4", 0);
  EXPECT_GE(rounds, 5);
  for (int load = 0; load < 20; ++load) EXPECT_EQ(store.count("f1-r8-q4", load), rounds);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST(MeasurementStore, OnAFullDiskSaysSoAndKeepsWhatIsThere) {
  ScratchFolder folder;
  const std::string path = folder.file("a.rmeas");
  const pid_t child = ::fork();
  if (child == 0) {
    // A limit on the file's size fails a write like a full disk does.
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{200'000, 200'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      MeasurementStore store(path);
      store.begin(example_workload(20));
      store.put(std::vector<TimedConfig>{example_config(8, 4)});
      for (int i = 0; i < 10'000; ++i)
        store.append(std::vector<CellSamples>{
            {"f1-r8-q4", i % 20, std::vector<Sample>(50, {1.f, 0, false})}});
      ::_exit(1);
    } catch (const Error& e) {
      ::_exit(std::string(e.what()).find("what was stored before is intact") != std::string::npos
                  ? 0
                  : 2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  MeasurementStore store(path);
  EXPECT_GE(store.count("f1-r8-q4", 0), 50);
  EXPECT_EQ(store.count("f1-r8-q4", 0) % 50, 0);
}

TEST(GridText, ReadsBackAndRefusesTheRest) {
  for (const char* text : {"8x4x132", "16x1x264+64x16x132"})
    EXPECT_EQ(grid_text(parse_grid(text, "grid")), text);
  for (const char* text : {"", "8", "8x4", "8x4x132+", "0x4x132", "8x4x132x1", "-8x4x132",
                           "8x4x9999999999", " 8x4x132", "8x4x132+8x4x132+1x1x1"})
    EXPECT_THROW(parse_grid(text, "grid"), Error) << text;
}

}  // namespace
}  // namespace ramp
