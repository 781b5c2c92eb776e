// SPDX-License-Identifier: Apache-2.0
// Measurements on disk (docs/measurements-format.md): one SQLite file holds what a campaign
// measures, which forward passes it measures for, and on which machine.  While it grows, every
// batch is one transaction, so that a campaign can be killed at any moment; when it is closed it is
// one compact file that reads from anywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "choice/measured.hpp"
#include "lab/timer.hpp"

namespace ramp {

// The whole file as the choice half wants it.  Candidates are the configurations that are kOk;
// whatever is in the file of a campaign that has not finished is there, and the rest is empty.
// Throws Error for anything that is not a whole measurements file of a version that this program
// knows.
MeasuredSpace load_measurements(const std::string& path);

// Writes a finished file in one go (temporary name, fsync, rename); replaces what was there.
void save_measurements(const MeasuredSpace& space, const std::string& path);

// Every configuration of the file, the refused and quarantined ones too.
std::vector<TimedConfig> load_configs(const std::string& path);

// What a file says of the campaign that filled it; empty and 0 where it says nothing.
struct CampaignRecord {
  std::string options;  // "seed 1, anchors 24, ..."
  std::string end;      // "budget", "done", ...
  long long samples = 0;
  long long dropped = 0;  // more that came throttled and were not kept
  // SM clock during the samples, MHz: the median, and where all but one in a hundred lie above and
  // below.
  double median_mhz = 0, low_mhz = 0, high_mhz = 0;
};
CampaignRecord load_campaign_record(const std::string& path);

// What a campaign fills in: everything of a MeasuredSpace but candidates and samples.
struct Workload {
  Provenance
      provenance;  // model, layout and routing; the machine's part is filled in by the campaign
  LocalShape shape;
  int gpus = 1;
  std::vector<std::vector<int>> loads;  // sorted descending, no two equal
  std::vector<MeasuredPass> passes;
  std::vector<ShippedPick> shipped;  // of kernels that are not ours
};

// The samples that one batch adds to a cell.  Throttled ones are counted and not kept.
struct CellSamples {
  std::string label;
  int load = 0;  // index into Workload::loads
  std::vector<Sample> samples;
};

// What the store has of a cell.
struct StoredCell {
  std::string label;
  int load = 0;
  int dropped = 0;  // throttled samples
  std::vector<float> us;
};

// A file that grows.  One writer at a time: the lock beside it dies with the process and names its
// pid.
class MeasurementStore {
 public:
  // What survives a power cut; a killed process loses no batch either way.
  enum class Durable { kEveryBatch, kAtClose };
  // Opens the file to go on, or creates it; one that never began is removed by the destructor.
  explicit MeasurementStore(const std::string& path, Durable durable = Durable::kEveryBatch);
  ~MeasurementStore();
  MeasurementStore(MeasurementStore&&) noexcept;

  bool is_new() const;  // nothing but an empty schema yet
  // Writes the workload and provenance of a new file, or checks that those of an old one are the
  // same; the Error names the first thing that differs.
  void begin(const Workload& workload);

  // Adds configurations or updates their status, reason and resources; the samples stay.
  void put(std::span<const TimedConfig> configs);
  void set_status(const std::string& label, ConfigStatus status, const std::string& reason);
  std::vector<TimedConfig> configs() const;

  // One transaction.
  void append(std::span<const CellSamples> batch);
  // Every cell that was ever measured, of every configuration.
  std::vector<StoredCell> cells_taken() const;
  // How many samples a cell has; 0 for one never measured.
  int count(const std::string& label, int load) const;
  std::vector<float> samples(const std::string& label, int load) const;
  long long cells() const;    // that have a sample
  long long dropped() const;  // throttled samples that were not kept
  // Of everything stored: the median SM clock in MHz, 0 where no clock is known.
  float median_mhz() const;

  // What the campaign must remember across a kill: small texts under a name.
  void set_note(const std::string& name, const std::string& value);
  std::optional<std::string> note(const std::string& name) const;

  // One file without a log, its pages in order.  The destructor does the same without the
  // rewriting.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string status_name(ConfigStatus status);  // "new", "ok", "refused", "wrong", "quarantined"
ConfigStatus parse_status(const std::string& text, const std::string& field);
std::string grid_text(const Grid& grid);  // "8x4x132", two phases "8x4x132+16x8x132"
Grid parse_grid(const std::string& text, const std::string& field);
std::string role_name(Role role);  // "train", "test", "uniform"
Role parse_role(const std::string& text, const std::string& field);

}  // namespace ramp
