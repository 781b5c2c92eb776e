// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_timer.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "base/build.hpp"
#include "base/error.hpp"
#include "cli/gpu_options.hpp"
#include "gpu/nvrtc.hpp"
#include "kernels/device_code.hpp"
#include "kernels/ffn/space.hpp"
#include "runtime/burst_timer.hpp"
#include "runtime/check.hpp"

namespace ramp::cli {
namespace {

constexpr double kReferenceProducts = 3e9;  // of one check: some seconds on two cores
constexpr std::uint64_t kCheckSeed = 77;

class GpuTimer : public KernelTimer {
 public:
  explicit GpuTimer(int device) : gpu_(device), bench_(load_bench(*gpu_.cache)) {}

  Provenance environment() override {
    Provenance p;
    p.gpu = gpu_.context.info().name;
    p.driver = gpu::kernel_driver_version();
    p.toolkit = "NVRTC " + gpu::nvrtc_version();
    p.commit = build_commit();
    p.date = today();
    p.sources = device_sources_hash();
    p.how =
        "ffn on ready tile lists, bursts of 1 to 12 launches (about 150 us) with programmatic "
        "edges over rotating cold copies of the weights, event-timed behind a gate; a burst's "
        "fixed cost, measured with empty launches, taken off";
    return p;
  }

  std::vector<TimedConfig> space(const LocalShape& shape) override {
    require_ffn_shape(shape);
    shape_ = shape;
    trial_.reset();
    bursts_.reset();
    std::vector<TimedConfig> all;
    for (const FfnConfig& c : ffn_space()) {
      TimedConfig timed;
      timed.candidate.label = ffn_label(c);
      timed.candidate.knobs = ffn_knobs(c);
      timed.candidate.grid = ffn_grid(c, shape.hidden, shape.intermediate, gpu_.context.info().sms);
      timed.candidate.occupancy = ffn_occupancy(c);
      timed.candidate.smem_bytes = ffn_shared_bytes(c);
      const Phase& phase = timed.candidate.grid.phase[0];
      if (phase.col_tiles > kMaxColTiles) {
        timed.status = ConfigStatus::kRefused;
        timed.reason = fmt::format("{} slices of h, more than {}", phase.col_tiles, kMaxColTiles);
      } else if (const char* why = ffn_shape_refusal(c, shape.hidden, shape.intermediate)) {
        timed.status = ConfigStatus::kRefused;
        timed.reason = why;
      }
      configs_[timed.candidate.label] = {c, timed};
      all.push_back(timed);
    }
    return all;
  }

  std::vector<TimedConfig> prepare(const std::vector<std::string>& labels,
                                   const PrepareProgress& progress) override {
    std::vector<gpu::CompileRequest> requests;
    for (const std::string& label : labels)
      requests.push_back(ffn_request({&known(label).config, 1}));
    const std::vector<gpu::CompileResult> compiled =
        gpu_.cache->get_all(requests, 0, [&](std::size_t done, std::size_t total, std::size_t) {
          if (progress) progress(static_cast<int>(done), static_cast<int>(total));
        });
    std::vector<TimedConfig> prepared;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      Known& k = known(labels[i]);
      try {
        if (!compiled[i].cubin) throw Error(compiled[i].error);
        k.kernels = std::make_shared<const Kernels>(gpu_.context.info(), prepare_cubin(),
                                                    *compiled[i].cubin, std::vector{k.config});
        k.timed.candidate.registers = k.kernels->ffn().registers();
      } catch (const gpu::CudaError&) {
        throw;  // the GPU, not the configuration
      } catch (const Error& e) {
        k.timed.status = ConfigStatus::kRefused;
        k.timed.reason = e.what();
      }
      prepared.push_back(k.timed);
    }
    return prepared;
  }

  std::string verify(const std::string& label) override {
    const Known& k = ready(label);
    if (!trial_)
      trial_ = make_trial(bench_, cheap_setting_of(shape_, kReferenceProducts), Cases::kRagged,
                          kCheckSeed);
    const Layer layer = trial_layer(k.kernels, *trial_, {Theta{}});
    for (std::size_t i = 0; i < trial_->cases.size(); ++i) {
      const CheckRecord record = run_case(layer, *trial_, i, -1, stream_);
      if (!record.ok)
        return fmt::format("{}: {} (relative error {:.4f} where {:.4f} is allowed)", record.test,
                           record.detail, record.rel_err, record.tolerance);
    }
    return "";
  }

  std::vector<std::vector<Sample>> measure(const MeasureRequest& request) override {
    if (!bursts_) bursts_.emplace(gpu_.context, gpu_.clocks, bench_, shape_);
    std::vector<std::shared_ptr<const Kernels>> kernels;
    for (const std::string& label : request.labels) kernels.push_back(ready(label).kernels);
    std::vector<BurstCell> cells;
    for (const Cell& cell : request.cells) cells.push_back({cell.config, cell.load, cell.taken});
    std::vector<std::vector<Sample>> samples;
    for (const auto& of_cell : bursts_->measure(kernels, request.loads, cells, request.rounds)) {
      samples.emplace_back();
      for (const BurstSample& s : of_cell)
        samples.back().push_back(
            {static_cast<float>(s.us), static_cast<float>(s.sm_mhz), s.throttled});
    }
    return samples;
  }

 private:
  struct Known {
    FfnConfig config;
    TimedConfig timed;
    std::shared_ptr<const Kernels> kernels;  // once it is prepared
  };

  Known& known(const std::string& label) {
    const auto it = configs_.find(label);
    if (it == configs_.end())
      throw Error("label", label, "one of the space", "open the shape first");
    return it->second;
  }
  const Known& ready(const std::string& label) {
    const Known& k = known(label);
    if (!k.kernels) throw Error("label", label, "a prepared configuration", "prepare it first");
    return k;
  }
  const gpu::Cubin& prepare_cubin() {
    if (!prepare_cubin_) prepare_cubin_ = gpu_.cache->get(prepare_request());
    return *prepare_cubin_;
  }

  OpenGpu gpu_;
  BenchProgram bench_;
  gpu::Stream stream_;
  LocalShape shape_;
  std::map<std::string, Known> configs_;
  std::optional<gpu::Cubin> prepare_cubin_;
  std::optional<TrialSetting> trial_;
  std::optional<BurstTimer> bursts_;
};

}  // namespace

std::unique_ptr<KernelTimer> make_gpu_timer(int device) {
  return std::make_unique<GpuTimer>(device);
}

}  // namespace ramp::cli
