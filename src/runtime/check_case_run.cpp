// SPDX-License-Identifier: Apache-2.0
// One case on one layer: poisoned memory in, output and everything `prepare` left compared.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "choice/select.hpp"
#include "kernels/ffn/space.hpp"
#include "runtime/check.hpp"
#include "runtime/layer_arguments.hpp"

namespace ramp {
namespace {

constexpr double kSeconds = 20;            // a case takes milliseconds
constexpr std::uint16_t kPoison = 0xffff;  // bytes of 0xff: NaN as bf16, as float and as e4m3

template <class T>
std::vector<T> part(const std::vector<unsigned char>& bytes, std::size_t offset,
                    std::size_t count) {
  std::vector<T> values(count);
  std::memcpy(values.data(), bytes.data() + offset, count * sizeof(T));
  return values;
}

bool same_row(const Row& a, const Row& b) {
  return a.token == b.token && std::memcmp(&a.gate, &b.gate, sizeof a.gate) == 0;
}

// Empty, or the first thing that differs from the twin.
std::string prepared_difference(const Layer& layer, const CheckCase& c, const LayerState& state,
                                const std::vector<unsigned char>& bytes, const Workspace& w,
                                const LayerMode& mode, int forced) {
  const LayerOptions& o = layer.options();
  const GroupedRows& want = c.grouped;
  const auto experts = static_cast<std::size_t>(o.shape.experts);
  if (part<int>(bytes, w.counts, experts) != want.counts) return "the counts of the experts";
  if (state.rows != static_cast<int>(want.rows.size())) return "the number of rows";

  int choice = forced;
  if (forced < 0) {
    std::vector<MenuEntry> menu;
    for (std::size_t i = 0; i < o.menu.size(); ++i)
      menu.push_back(
          {ffn_grid(o.menu[i], o.shape.hidden, o.shape.intermediate, layer.kernels().device().sms),
           o.theta[i]});
    choice = select(std::span<const int>(want.counts), menu).entry;
  }
  if (state.choice != choice)
    return fmt::format("the choice: {} where the host's twin takes {}", state.choice, choice);

  std::size_t before = 0;  // rows of the experts before
  for (std::size_t e = 0; e < experts; ++e) {
    const auto n = static_cast<std::size_t>(want.counts[e]);
    const auto at = w.rows + static_cast<std::size_t>(want.row_base[e]) * sizeof(Row);
    const auto rows = part<Row>(bytes, at, n);
    if (!std::equal(rows.begin(), rows.end(),
                    want.rows.begin() + static_cast<std::ptrdiff_t>(before), same_row))
      return "the rows grouped by expert";
    before += n;
  }
  const auto head = part<Row>(bytes, w.head, experts * kHeadRows);
  const std::vector<Row> want_head = head_rows(want);
  for (std::size_t e = 0; e < experts; ++e)
    for (int r = 0; r < std::min(want.counts[e], kHeadRows); ++r) {
      const std::size_t at = e * kHeadRows + static_cast<std::size_t>(r);
      if (!same_row(head[at], want_head[at])) return "the first rows of the experts";
    }

  const FfnConfig& config = o.menu[static_cast<std::size_t>(choice)];
  const std::vector<Tile> tiles = listed_tiles(want, config, o.shape, layer.kernels().device().sms);
  if (state.tiles != static_cast<int>(tiles.size()))
    return fmt::format("the number of tiles: {} where there are {}", state.tiles, tiles.size());
  if (std::memcmp(bytes.data() + w.tiles, tiles.data(), tiles.size() * sizeof(Tile)) != 0)
    return "the list of tiles";
  // Of tokens without local pairs nobody reads the rows, and large loads leave them out.
  const auto d = static_cast<std::size_t>(o.shape.hidden), groups = d / kScaleGroup;
  const bool quantises = c.batch.hidden_q.empty();
  const bool scales =
      quantises || mode.orders_scales || !is_row_by_row(c.scale_strides, o.shape.hidden, c.slots);
  // Of grouped rows, where the entry has two phases, column by column.
  const int pitch =
      config.topology == kF3 && (mode.row_a_pair || !c.ready_counts.empty())
          ? column_pitch(mode.row_a_pair ? c.batch.tokens * o.shape.top_k : c.batch.tokens)
          : 0;
  const auto same_scale = [&](std::size_t row, std::size_t g, float scale) {
    const auto at = static_cast<std::size_t>(scale_at(
        pitch, static_cast<long long>(row), static_cast<int>(g), static_cast<int>(groups)));
    return std::memcmp(bytes.data() + w.rows_scale + at * sizeof(float), &scale, sizeof scale) == 0;
  };
  for (std::size_t r = 0; r < want.rows.size(); ++r) {
    const auto t = static_cast<std::size_t>(want.rows[r].token), at = mode.row_a_pair ? r : t;
    if (quantises && std::memcmp(bytes.data() + w.rows_q + at * d, c.rows_q.data() + t * d, d) != 0)
      return fmt::format("the quantised row of token {}", t);
    for (std::size_t g = 0; scales && g < groups; ++g)
      if (!same_scale(at, g, c.rows_scale[t * groups + g]))
        return fmt::format("the scale of token {}, group {}", t, g);
  }
  return "";
}

// Ids that were skipped and inspected, counted as docs say.
std::string counter_difference(const LayerState& state, const CheckCase& c, int top_k) {
  if (!c.ready_counts.empty()) {
    const auto cut = std::count_if(c.ready_counts.begin(), c.ready_counts.end(), [&](int n) {
      return n < 0 || n > (c.slots > 0 ? c.slots : c.batch.tokens);
    });
    if (static_cast<long long>(state.invalid) == cut) return "";
    return fmt::format("the counter of invalid counts: {} where there are {}", state.invalid, cut);
  }
  const auto& map = c.batch.expert_map;
  const Selection s = select(c.batch.ids, top_k, map, static_cast<int>(c.grouped.counts.size()),
                             std::vector<MenuEntry>(1, MenuEntry{{{{1, 1, 1}, {}}, 1}, {}}));
  const auto nans = std::count_if(c.batch.gates.begin(), c.batch.gates.end(),
                                  [](float g) { return std::isnan(g); });
  const std::pair<const char*, std::pair<long long, long long>> counters[] = {
      {"foreign ids", {state.foreign, s.ids.foreign}},
      {"padding", {state.padded, s.ids.padding}},
      {"invalid ids", {state.invalid, s.ids.invalid}},
      {"duplicate ids in range", {state.duplicate, s.ids.duplicates}},
      {"NaN router weights", {state.nan_gate, nans}}};
  for (const auto& [name, values] : counters)
    if (values.first != values.second)
      return fmt::format("the counter of {}: {} where there are {}", name, values.first,
                         values.second);
  return "";
}

bool leaves_empty_slots(const CheckCase& c, const std::vector<std::uint16_t>& out, std::size_t d) {
  for (std::size_t t = 0; t < c.batch.ids.size(); ++t)
    if (c.batch.ids[t] < 0 &&
        !std::all_of(&out[t * d], &out[t * d] + d, [](auto x) { return x == kPoison; }))
      return false;
  return true;
}

}  // namespace

double output_adds(const FfnConfig& config, int intermediate, int most_pairs) {
  return static_cast<double>(ffn_additions(config, intermediate)) * most_pairs;
}

Layer trial_layer(std::shared_ptr<const Kernels> kernels, const TrialSetting& trial,
                  std::vector<Theta> theta, bool ordered, std::optional<bool> row_a_pair) {
  LayerOptions options;
  options.ordered = ordered;
  options.row_a_pair = row_a_pair;
  options.shape = trial.setting.shape;
  options.experts = trial.setting.experts;
  options.first_expert = trial.setting.first_expert;
  options.expert_map = trial.setting.expert_map;
  options.menu = kernels->menu();
  options.theta = std::move(theta);
  return Layer(std::move(kernels), std::move(options), trial.weights.view());
}

CheckRecord run_case(const Layer& layer, const TrialSetting& trial, std::size_t which, int forced,
                     const gpu::Stream& stream, std::vector<std::uint16_t>* output_bits,
                     const std::function<void(const Hung&)>& hung) {
  const CheckCase& c = trial.cases[which];
  const DeviceBatch& batch = trial.batches[which];
  const LocalShape& shape = trial.setting.shape;
  CheckRecord record;
  record.test = trial.setting.name + "/" + c.name;

  // Never empty, so that a call without tokens gets pointers to look at.
  const std::size_t elements = static_cast<std::size_t>(c.batch.tokens) * shape.hidden;
  gpu::Buffer output(std::max<std::size_t>(elements, 128) * 2);
  LayerCall call;
  call.tokens = c.batch.tokens;
  call.hidden = batch.hidden.ptr();
  call.hidden_scales = trial.scales[which].ptr();
  call.scale_strides = c.scale_strides;
  call.ids = c.ready_counts.empty() ? batch.ids.ptr() : 0;
  call.ready_counts = c.ready_counts.empty() ? 0 : trial.counts[which].ptr();
  call.slots = c.slots;
  call.gates = batch.gates.ptr();
  const Workspace w = layer.workspace(call);
  gpu::Buffer workspace(w.bytes);
  output.fill(kPoison & 0xff);
  workspace.fill(kPoison & 0xff);
  layer.init_workspace(workspace.ptr(), stream);
  call.output = output.ptr();
  call.workspace = workspace.ptr();
  call.workspace_bytes = w.bytes;
  call.stream = stream;
  call.forced = forced;
  layer.forward(call);
  try {
    wait_for(stream, kSeconds, record.test);
  } catch (const Hung& e) {
    if (hung) hung(e);
    throw;
  }

  std::vector<std::uint16_t> out = output.values<std::uint16_t>();
  if (c.batch.tokens == 0) {
    record.ok = std::all_of(out.begin(), out.end(), [](auto x) { return x == kPoison; });
    if (!record.ok) record.detail = "a call without tokens wrote something";
    return record;
  }
  out.resize(elements);
  const auto bytes = workspace.values<unsigned char>();
  const LayerState state = part<LayerState>(bytes, w.state, 1).front();
  const OutputError error = output_error(c.want, out);
  record.rel_err = error.all;
  const int entry = std::clamp(state.choice, 0, static_cast<int>(layer.options().menu.size()) - 1);
  record.tolerance =
      fast_tolerance(output_adds(layer.options().menu[static_cast<std::size_t>(entry)],
                                 shape.intermediate, c.most_pairs),
                     static_cast<double>(state.rows) * shape.intermediate);
  if (!(error.all <= record.tolerance))
    record.detail = std::isinf(error.all) ? "NaN, or memory that was not written, in the output"
                                          : "the output is further off than the formats allow";
  else if (!(error.worst_piece <= kPieceTolerance))
    record.detail = fmt::format("128 columns of one row are off by {:.3f}", error.worst_piece);
  else if (c.slots > 0 && !leaves_empty_slots(c, out, static_cast<std::size_t>(shape.hidden)))
    record.detail = "a slot that no row fills was written";
  if (std::string difference =
          prepared_difference(layer, c, state, bytes, w, layer.mode(call), forced);
      !difference.empty())
    record.detail = "prepare's " + difference;
  else if (difference = counter_difference(state, c, shape.top_k); !difference.empty())
    record.detail = difference;
  record.ok = record.detail.empty();
  if (output_bits) *output_bits = std::move(out);
  return record;
}

}  // namespace ramp
