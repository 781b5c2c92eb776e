// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/numbers.hpp"

namespace ramp {
namespace {

constexpr double kNone = Number::kUnknown;

// clang-format off
const PaperRow kRows[] = {
    // Section 4.2, Table 3: over vLLM's tuning, all batches and >= 128; over the trace-tuned table; over the
    // per-GPU table; gap to exhaustive search in %.
    {"3", "qwen3-30b", "ep8", {1.10, 1.24, 1.04, 1.03, 3.5}},
    {"3", "qwen3-30b", "ep16", {1.04, 1.06, 1.02, 1.01, 2.2}},
    {"3", "qwen3-30b", "ep32", {1.18, 1.24, 1.06, 1.00, 2.0}},
    {"3", "qwen35-35b", "ep8", {1.05, 1.07, 1.02, 1.02, 2.6}},
    {"3", "qwen35-35b", "ep32", {1.18, 1.24, 1.07, 1.01, 2.1}},
    {"3", "deepseek-v3", "ep8", {1.01, 1.03, 0.99, 0.99, 2.9}},
    {"3", "deepseek-v3", "ep32", {1.22, 1.16, 1.03, 1.01, 1.0}},
    {"3", "olmoe", "ep8", {1.05, 1.16, 1.03, 1.02, 0.9}},
    {"3", "olmoe", "ep16", {1.14, 1.45, 1.00, 1.00, 2.0}},
    {"3", "phi35", "ep8", {1.27, 1.27, 1.06, 1.03, 1.0}},
    {"3", "phi35", "ep16", {1.20, 1.34, 1.08, 1.01, 2.9}},
    {"3", "qwen2-57b", "ep8", {1.04, 1.04, 1.01, 1.01, 1.2}},
    {"3", "qwen2-57b", "ep16", {1.17, 1.29, 1.04, 1.02, 1.4}},
    {"3", "mixtral", "ep8", {1.14, 1.14, 1.03, 1.00, 0.7}},
    // Appendix A.2, Table 4 (batches of 128 and more, 21 EP layouts): gap in %, worst layout in %; low and high
    // of a range where it prints one.  The tile formula is Section 4.2's, over 18 layouts.
    {"4", "gpu-table", "", {4.0, 8.7, kNone, kNone}},
    {"4", "gpu-padding", "", {3.1, 5.8, kNone, kNone}},
    {"4", "gpu-active", "", {kNone, kNone, 3.3, 4.8}},
    {"4", "gpu-peak", "", {kNone, kNone, 3.3, 4.8}},
    {"4", "gpu-variation", "", {kNone, kNone, 3.3, 4.8}},
    {"4", "gpu-3d", "", {3.4, 6.4, kNone, kNone}},
    {"4", "neighbors-8", "", {3.5, 8.6, kNone, kNone}},
    {"4", "tile-formula", "", {6.7, kNone, kNone, kNone}},
    {"4", "cost-model", "", {1.4, 2.9, kNone, kNone}},
    // Appendix A.3, Table 5 (>= 128, held-out domain).  Over vLLM's tuning: trace-tuned, per-GPU, RaMP,
    // exhaustive.  Over the trace-tuned table: RaMP, its interval, exhaustive.
    {"5", "olmoe", "ep4", {1.10, 1.11, 1.15, 1.15, 1.04, 1.02, 1.07, 1.05}},
    {"5", "olmoe", "ep8", {1.08, 1.16, 1.24, 1.23, 1.15, 1.11, 1.18, 1.14}},
    {"5", "olmoe", "ep16", {1.11, 1.39, 1.40, 1.41, 1.27, 1.20, 1.33, 1.27}},
    {"5", "qwen3-30b", "ep8", {1.07, 1.16, 1.22, 1.23, 1.14, 1.11, 1.16, 1.15}},
    {"5", "qwen3-30b", "ep16", {0.93, 1.04, 1.06, 1.07, 1.15, 1.10, 1.20, 1.16}},
    {"5", "qwen3-30b", "ep32", {1.04, 1.36, 1.38, 1.38, 1.32, 1.24, 1.39, 1.32}},
    {"5", "qwen35-35b", "ep8", {1.02, 1.01, 1.04, 1.05, 1.01, 1.00, 1.02, 1.02}},
    {"5", "qwen35-35b", "ep16", {1.04, 1.05, 1.08, 1.08, 1.03, 1.02, 1.06, 1.04}},
    {"5", "qwen35-35b", "ep32", {1.04, 1.13, 1.12, 1.13, 1.08, 1.05, 1.13, 1.09}},
    {"5", "deepseek-v3", "ep8", {1.08, 1.09, 1.08, 1.10, 1.00, 0.99, 1.01, 1.01}},
    {"5", "deepseek-v3", "ep16", {1.01, 1.01, 1.08, 1.09, 1.07, 1.05, 1.09, 1.08}},
    {"5", "deepseek-v3", "ep32", {1.07, 1.18, 1.23, 1.24, 1.15, 1.12, 1.18, 1.15}},
    {"5", "phi35", "ep4", {1.05, 1.08, 1.12, 1.13, 1.07, 1.04, 1.09, 1.07}},
    {"5", "phi35", "ep8", {1.19, 1.20, 1.25, 1.26, 1.06, 1.04, 1.07, 1.06}},
    {"5", "mixtral", "ep8", {1.20, 1.24, 1.26, 1.26, 1.05, 1.02, 1.07, 1.05}},
    // Appendix A.4, Table 8 (>= 128): imbalance contiguous, balanced; RaMP over the trace-tuned table on the
    // contiguous placement, on the balanced one, and its interval.
    {"8", "olmoe", "ep8", {1.45, 1.40, 1.15, 1.13, 1.10, 1.16}},
    {"8", "qwen3-30b", "ep8", {1.52, 1.53, 1.14, 1.13, 1.10, 1.16}},
    {"8", "qwen35-35b", "ep8", {1.42, 1.36, 1.01, 1.01, 1.00, 1.02}},
    {"8", "deepseek-v3", "ep8", {1.45, 1.35, 1.00, 0.99, 0.99, 1.00}},
    {"8", "qwen3-30b", "ep32", {2.88, 2.77, 1.24, 1.24, 1.11, 1.36}},
    {"8", "deepseek-v3", "ep32", {2.32, 2.22, 1.12, 1.13, 1.10, 1.17}},
    // Appendix A.5, Table 9 (>= 128, held-out domain).  Among the six: over the table, gap to the best in %.
    // Against the full space: over vLLM's tuning, gap to exhaustive search in %.
    {"9", "deepseek-v3", "ep8", {1.01, 0.1, 1.07, 3.6}},
    {"9", "deepseek-v3", "ep16", {0.99, 2.8, 1.02, 7.9}},
    {"9", "deepseek-v3", "ep32", {1.12, 0.3, 1.13, 8.2}},
    {"9", "mixtral", "ep4", {1.00, 0.0, 1.03, 1.4}},
    {"9", "mixtral", "ep8", {1.00, 0.0, 1.23, 1.9}},
    {"9", "olmoe", "ep4", {1.02, 0.6, 1.04, 10.4}},
    {"9", "olmoe", "ep8", {1.16, 0.0, 1.17, 5.5}},
    {"9", "olmoe", "ep16", {1.03, 0.1, 1.35, 8.5}},
    {"9", "olmoe", "ep32", {1.27, 0.4, 1.68, 4.9}},
    {"9", "phi35", "ep4", {1.05, 0.1, 1.01, 11.5}},
    {"9", "phi35", "ep8", {1.05, 0.1, 1.13, 11.6}},
    {"9", "phi35", "ep16", {1.16, 0.2, 1.16, 11.1}},
    {"9", "qwen2-57b", "ep8", {1.02, 0.2, 1.00, 7.4}},
    {"9", "qwen2-57b", "ep16", {1.04, 0.0, 1.18, 7.3}},
    {"9", "qwen3-30b", "ep8", {1.10, 0.0, 1.17, 6.1}},
    {"9", "qwen3-30b", "ep16", {1.02, 0.1, 1.04, 3.2}},
    {"9", "qwen3-30b", "ep32", {1.09, 1.5, 1.19, 10.8}},
    {"9", "qwen35-35b", "ep4", {1.00, 0.2, 0.98, 7.7}},
    {"9", "qwen35-35b", "ep8", {1.05, 0.7, 0.97, 9.7}},
    {"9", "qwen35-35b", "ep16", {1.01, 0.5, 1.01, 6.6}},
    {"9", "qwen35-35b", "ep32", {1.13, 0.8, 1.13, 3.4}},
    // Appendix A.7, Table 11 (all batches, the whole layer): kernel over vLLM's Triton, trace-tuned over vLLM's
    // tuning, RaMP over trace-tuned, total.
    {"11", "qwen3-30b", "tp1", {1.10, 1.00, 1.00, 1.10}},
    {"11", "qwen3-30b", "tp2", {1.16, 1.01, 1.00, 1.17}},
    {"11", "qwen35-35b", "tp1", {1.07, 1.02, 1.00, 1.09}},
    {"11", "qwen35-35b", "tp2", {1.16, 1.01, 0.98, 1.14}},
    {"11", "deepseek-v3", "tp8", {1.07, 1.03, 0.99, 1.09}},
    // Appendix A.8, Table 12 (OLMoE).  Entries alone: shared memory in KB from, to; registers from, to.  Inside
    // the kernel: shared memory, registers.
    {"12", "3", "", {85, 103, 72, 126, 103, 126}},
    {"12", "6", "", {53, 103, 72, 126, 103, 128}},
};

constexpr Number range(double low, double high) { return {kNone, low, high}; }

const PaperClaim kClaims[] = {
    {"speedup-large", "Abstract, Table 3", "largest speedup of the choice over vLLM's tuning, 128 tokens and more",
     {1.45}, Unit::kTimes},
    {"speedup-all", "Abstract, Table 3", "... all batches", {1.27}, Unit::kTimes},
    {"gap-worst", "Abstract, Table 3", "largest gap to exhaustive search on an EP layout, all batches, %", {0.035},
     Unit::kPercent},
    {"gap-under-2", "Section 4.2", "EP layouts of Table 3 within 2 % of exhaustive search", {8}, Unit::kCount},
    {"over-trace", "Section 4.2", "over the trace-tuned table, all batches, by EP layout", range(0.99, 1.08),
     Unit::kTimes},
    {"layer-total", "Abstract, Figure 5", "MoE layer over vLLM's Triton MoE, 128 tokens and more", range(1.14, 1.84),
     Unit::kTimes},
    {"layer-kernel", "Section 4.2, Figure 5", "... of it the kernel under vLLM's tuning", range(1.03, 1.72),
     Unit::kTimes},
    {"layer-choice", "Section 4.2, Figure 5", "... of it choosing from each GPU's load", range(1.03, 1.29),
     Unit::kTimes},
    {"choice-share", "Section 4.2", "the choice's share of the total gain, median, %", {0.40}, Unit::kPercent},
    {"time-per-token", "Abstract, Table 2", "time per output token over the fastest stock backend, at most", {1.11},
     Unit::kTimes},
    {"configurations", "Section 3.3", "valid configurations a model and layout", range(98, 337), Unit::kCount},
    {"wrong-tile", "Section 2.2", "tile sizes best under 32 tokens, on 512 and more: slower than the best there",
     range(1.7, 6.1), Unit::kTimes},
    {"row-range", "Section 2.3", "rows a tile of the GPUs' fastest configurations, a pass of 256 tokens, qwen3-30b ep8",
     range(6, 32), Unit::kCount},
    {"row-vllm", "Section 2.3", "... and of vLLM's tuning", {24}, Unit::kCount},
    {"winners", "Section 2.3", "distinct winners a pass of 128 tokens and more, EP8, mean by model", range(4, 6),
     Unit::kMean},
    {"one-winner", "Section 2.3", "passes in which one configuration is best on every GPU, at most, %", {0.16},
     Unit::kPercent},
    {"pass-peak", "Section 2.3, Figure 4", "one pass of 211 tokens, qwen3-30b ep8: most loaded GPU over the mean, up to",
     {2.0}, Unit::kRatio},
    {"pass-trough", "Section 2.3, Figure 4", "... least loaded GPU over the mean, down to below", {0.33}, Unit::kRatio},
    {"rank", "Section 3.1", "rank correlation of Eq. 3 on loads it was not fitted on", range(0.97, 0.99), Unit::kRank},
    {"pick-error", "Section 3.1", "error of the predicted time of the configuration it picks, median, %",
     range(0.014, 0.065), Unit::kPercent},
    {"menu-3", "Section 3.3", "polymorphic entry over the same compiled alone, menu of three", {1.00}, Unit::kTimes},
    {"menu-6", "Section 3.3", "... menu of six, median", {1.01}, Unit::kTimes},
    {"menu-12", "Section 3.3", "a menu of six over one of twelve, %", range(0.01, 0.02), Unit::kPercent},
    {"select-us", "Section 3.2", "selection kernel, 8 to 4,096 pairs, us", range(3.8, 6.5), Unit::kUs},
    {"conditional-us", "Section 3.3", "a conditional graph node, us a layer", {8.4}, Unit::kUs},
    {"idle-blocks", "Section 3.3", "blocks beyond the entry's count that exit at once, %", {0.002}, Unit::kPercent},
    {"two-runs", "Section 4, Measurement", "repeated measurements differ by, %", range(0.002, 0.012), Unit::kPercent},
    {"room-all", "Section 4.1", "exhaustive search over vLLM's tuning, all batches of the recorded traffic, EP8",
     range(1.04, 1.07), Unit::kTimes},
    {"gpu-table-near", "Section 4.2", "over the per-GPU table at its own EP degree, at most", {1.03}, Unit::kTimes},
    {"spread-large", "Section 4.2", "over the per-GPU table, 128 tokens and more, EP16 and EP32, at most", {1.07},
     Unit::kTimes},
    {"moved-own", "Section 4.2", "per-GPU table at its own EP degree: gap, %", {0.04}, Unit::kPercent},
    {"moved-other", "Section 4.2", "per-GPU table tuned at the model's other EP degrees: gap, %", {0.09},
     Unit::kPercent},
    {"moved-model", "Section 4.2", "cost model fitted on seven models, on the eighth: gap, %", {0.019},
     Unit::kPercent},
    {"tile-formula", "Section 4.2", "tile-count formula: gap, 128 tokens and more, geometric mean, %", {0.067},
     Unit::kPercent},
    {"eq3-gap", "Section 4.2", "... Eq. 3 on the same layouts", {0.013}, Unit::kPercent},
    {"tables-best", "Appendix A.2", "tables on the count and a measure of balance: gap, 128 tokens and more, %",
     range(0.031, 0.048), Unit::kPercent},
    {"tables-all", "Table 4", "largest gap of any per-GPU policy over all batches, %", {0.022}, Unit::kPercent},
    {"six-table", "Section 4.2, Table 9", "over a table on the same six, geometric mean", {1.06}, Unit::kTimes},
    {"six-best", "Section 4.2, Table 9", "gap to the best of the six, mean, %", {0.005}, Unit::kPercent},
    {"six-vllm", "Section 4.2, Table 9", "served six over vLLM's tuning on the full space, geometric mean", {1.12},
     Unit::kTimes},
    {"six-full", "Section 4.2, Table 9", "served six: gap to exhaustive search over the full space, mean, %", {0.07},
     Unit::kPercent},
    {"tp-trace", "Section 4.2", "TP: the choice over the trace-tuned table, from", range(0.98, 1.00), Unit::kTimes},
    {"placement-points", "Section 4.2", "balanced placement lowers the imbalance by at most, points", {0.11},
     Unit::kPercent},
    {"rebalanced", "Section 4.2, Table 7", "most loaded GPU over the mean, re-balanced every 128 passes, EP8",
     range(1.11, 1.56), Unit::kRatio},
    {"mix-recorded", "Section 4.2", "passes of 128 tokens and more, qwen3-30b, loops of 16, 64 and 256 requests, %",
     {0.04}, Unit::kPercent},
    {"mix-open", "Section 4.2", "... open-loop arrivals, %", range(0.14, 0.52), Unit::kPercent},
    {"mix-gain", "Section 4.2", "over vLLM's tuning weighted by the open-loop mix at 32 requests/s, four of six layouts",
     range(1.16, 1.23), Unit::kTimes},
    {"regret", "first version, abstract", "mean regret", {0.0093}, Unit::kPercent},
    {"regions", "first version, abstract", "architectures whose best optimisations were predicted, of 8", {8},
     Unit::kCount},
    {"profiling", "first version, abstract", "minutes of profiling a model", range(10, 24), Unit::kCount},
    {"alpha-moe", "first version, abstract", "the choice driving Alpha-MoE", {1.14}, Unit::kTimes},
    {"static", "first version, abstract", "kernel over static dispatch", {1.22}, Unit::kTimes},
};
// clang-format on

}  // namespace

std::vector<PaperRow> paper_rows(std::string_view table) {
  std::vector<PaperRow> rows;
  for (const PaperRow& row : kRows)
    if (row.table == table) rows.push_back(row);
  return rows;
}

std::span<const PaperClaim> paper_claims() { return kClaims; }

}  // namespace ramp
