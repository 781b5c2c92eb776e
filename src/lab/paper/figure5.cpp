// SPDX-License-Identifier: Apache-2.0
// Figure 5: the layer built up one change at a time, passes of 128 tokens and more; and beside it
// where a whole layer stands above its floor.
#include <map>
#include <set>
#include <utility>

#include "lab/paper/compared.hpp"
#include "lab/paper/peers.hpp"
#include "lab/paper/records.hpp"
#include "lab/paper/results.hpp"

namespace ramp {
namespace {

// us of each part of a layer over tokens, a panel a model and layout.
std::vector<Panel> layer_panels(const std::string& path) {
  const nlohmann::json document = parse_records(read_records(path), "layer records");
  struct Part {
    const char* field;
    const char* name;
  };
  constexpr Part kParts[] = {{"us", "whole layer"},
                             {"ffn_us", "expert kernel"},
                             {"stream_us", "weight stream, measured"},
                             {"floor_us", "floor, formula"}};
  std::map<std::string, Panel> panels;
  for (const auto& row : document["rows"]) {
    if (!row.contains("mode") || row["mode"] != "fast" || !row.contains("policy") ||
        row["policy"] != "best")
      continue;
    const std::string title = model_title(row.value("model", "")) + " " +
                              layout_title(row.value("layout", "")) + ", " + row.value("load", "") +
                              " routing";
    Panel& panel = panels[title];
    if (panel.series.empty()) {
      panel = {title, "tokens of the pass", "us", true, true, {}, {}, {}};
      for (const Part& part : kParts)
        panel.series.push_back({part.name, Series::Kind::kLine, {}, {}, {}, {}});
    }
    for (size_t s = 0; s < std::size(kParts); ++s) {
      panel.series[s].x.push_back(row.value("tokens", 0.0));
      panel.series[s].y.push_back(row.value(kParts[s].field, Number::kUnknown));
    }
  }
  std::vector<Panel> out;
  for (auto& [title, panel] : panels) out.push_back(std::move(panel));
  return out;
}

// The whole layer against vLLM's, into the rows of its layout or rows of their own.
void add_triton(Report& report, const PaperRequest& request) {
  const std::vector<PeerLayer> peers = peer_layers(request);
  std::set<std::pair<std::string, std::string>> layouts;
  for (const PeerLayer& layer : peers)
    if (layer.layout.starts_with("ep")) layouts.emplace(layer.model, layer.layout);
  for (const auto& [model, layout] : layouts) {
    const Number over = over_triton(peers, model, layout, request.large_batch, request);
    bool has_row = false;
    for (ReportRow& row : report.rows) {
      if (row.cells[0].text != model_title(model) || row.cells[1].text != layout_title(layout))
        continue;
      row.cells[2].ours = over;
      has_row = true;
    }
    if (!has_row)
      report.rows.push_back(
          {{{model_title(model)}, {layout_title(layout)}, {"", over, {}, {}}, {}, {}, {}, {}},
           kNotMeasured,
           tune_command(model, layout)});
  }
  report.notes.push_back(peers_note(peers));
}

}  // namespace

Report paper_figure5(const PaperRequest& request) {
  const std::string vllm(kVllmPolicy), menus(kMenusPolicy), oracle(kOraclePolicy);
  Report report = compared(
      {"figure5",
       "Figure 5: built up one change at a time; speedup over the kernel under vLLM's tuning, "
       "passes of 128 tokens and more",
       "",
       {{"layer over vLLM's Triton", "", ""},
        {request.choice, vllm, request.choice},
        {"as a plan serves", vllm, menus},
        {"exhaustive", vllm, oracle}},
       is_contiguous_ep,
       "",
       {"The paper's ranges over layouts: kernel 1.03-1.72x, choice 1.03-1.29x, both 1.14-1.84x."}},
      request);
  add_triton(report, request);
  Panel bars{"choice, 128 tokens and more",
             "",
             "over the kernel under vLLM's tuning",
             false,
             false,
             {},
             {},
             {}};
  for (size_t c = 3; c <= 5; ++c)
    bars.series.push_back({report.columns[c].name, Series::Kind::kBars, {}, {}, {}, {}});
  for (const ReportRow& row : report.rows) {
    if (!row.cells[3].ours.is_known()) continue;
    bars.categories.push_back(row.cells[0].text + " " + row.cells[1].text);
    for (size_t c = 3; c <= 5; ++c) {
      Series& series = bars.series[c - 3];
      const Number& ours = row.cells[c].ours;
      series.x.push_back(static_cast<double>(bars.categories.size()) - 1);
      series.y.push_back(ours.value), series.low.push_back(ours.low),
          series.high.push_back(ours.high);
    }
  }
  bars.levels.push_back({"kernel under vLLM's tuning", 1});
  std::vector<Panel> panels = {bars};
  if (!request.records.empty())
    for (Panel& panel : layer_panels(request.records)) panels.push_back(std::move(panel));
  report.plots.push_back({report.title, std::move(panels)});
  return report;
}

}  // namespace ramp
