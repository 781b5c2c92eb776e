// SPDX-License-Identifier: Apache-2.0
// JSON lines in, one request or part of a request a line:
//   {"request": "a", "domain": "math", "prompt": 12, "ids": [[[3, 17], [5, 9]], ...]}
//   [token][layer][k]
// `routed_experts` is read like `ids`, as vLLM returns it; a text there is base64 of int32, as
// SGLang returns it, and then the numbers of layers and k must be known.  A line without ids that
// names experts describes the trace.
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.hpp"
#include "problem/catalog.hpp"
#include "problem/json_text.hpp"
#include "problem/trace_import.hpp"

namespace ramp {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxLineBytes = 512u << 20;
constexpr std::int64_t kMaxIds = 2ll << 30;

class Lines {
 public:
  Lines(const ImportOptions& options) : options_(options) {
    raw_.k = options.info.top_k;
    raw_.layers = static_cast<int>(options.info.layers.size());
    // The model's own numbers serve base64 only: a nested list shows its shape itself.
    if (const Model* model = find_model_or_null(options.info.model)) {
      model_k_ = model->shape.top_k;
      model_layers_ = model->moe_layers;
    }
  }

  void take(std::string_view line, std::int64_t number) {
    number_ = number;
    if (line.size() > kMaxLineBytes)
      refuse("line", fmt::format("{} bytes", line.size()), "at most 512 MiB");
    const json root = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (root.is_discarded() || !root.is_object())
      refuse("line", "no JSON object", "one JSON object a line");
    const json* ids = nullptr;
    for (const char* key : {"ids", "routed_experts", "topk_ids"})
      if (const auto found = root.find(key); found != root.end() && !ids) ids = &*found;
    if (!ids) return describe(root);
    const std::int64_t before = raw_.tokens;
    if (ids->is_string())
      take_base64(ids->get_ref<const std::string&>());
    else
      take_nested(*ids);
    note_request(root, before, raw_.tokens - before);
  }

  ImportedTrace finish() {
    ImportedTrace out;
    out.report.format = "JSON lines";
    if (raw_.k == 0 || raw_.layers == 0)
      throw Error("input", "no line with ids", "lines with ids or routed_experts",
                  "docs/traces.md shows one");
    out.trace.info = complete_info(info_, options_, raw_.layers, raw_.k);
    judge_ids(raw_, options_.force, out.trace, out.report);
    out.trace.domains = domains_;
    std::int64_t at = 0;
    bool together = true;
    for (const Request& request : requests_) {
      TraceRequest kept{request.domain, request.prompt, at, 0};
      for (const auto& [first, tokens] : request.runs) {
        if (kept.tokens > 0 && request.runs.front().first + kept.tokens != first) together = false;
        kept.tokens += static_cast<int>(tokens);
        for (std::int64_t i = 0; i < tokens; ++i) out.trace.order.push_back(first + i);
      }
      kept.prompt = std::min(kept.prompt, kept.tokens);
      if (out.trace.info.phase == TracePhase::kPrefill) kept.prompt = kept.tokens;
      at += kept.tokens;
      out.trace.requests.push_back(kept);
    }
    if (together) {
      for (std::size_t r = 0; r < requests_.size(); ++r)
        out.trace.requests[r].first = requests_[r].runs.front().first;
      out.trace.order.clear();
    }
    thin_requests(out.trace, options_.requests_per_domain, out.report);
    check_trace(out.trace);
    return out;
  }

 private:
  struct Request {
    int domain;
    int prompt;
    std::vector<std::pair<std::int64_t, std::int64_t>> runs;  // first token, tokens
  };

  [[noreturn]] void refuse(const std::string& field, const std::string& value,
                           const std::string& allowed) const {
    throw Error(fmt::format("line {}, {}", number_, field), value, allowed,
                "docs/traces.md shows a line");
  }

  void describe(const json& root) {
    auto number = [&](const char* key, int limit) {
      const auto found = root.find(key);
      if (found == root.end()) return 0;
      if (!found->is_number_integer() || found->get<double>() < 1 || found->get<double>() > limit)
        refuse(key, shown(*found), fmt::format("1 .. {}", limit));
      return found->get<int>();
    };
    auto text = [&](const char* key) {
      const auto found = root.find(key);
      return found != root.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    info_.experts = number("experts", 32766);
    info_.model = text("model");
    info_.source = text("source");
    info_.licence = text("licence");
    if (const int k = number("top_k", 64); k != 0 && raw_.k == 0) raw_.k = k;
    if (const auto layers = root.find("layers"); layers != root.end() && layers->is_array()) {
      for (const json& layer : *layers) {
        if (!layer.is_number_unsigned() || layer.get<std::uint64_t>() > 65535 ||
            info_.layers.size() > 4096)
          refuse("layers", shown(layer), "at most 4096 decoder layers");
        info_.layers.push_back(layer.get<int>());
      }
      if (raw_.layers == 0) raw_.layers = static_cast<int>(info_.layers.size());
    }
  }

  void add_id(std::int64_t id) {
    if (static_cast<std::int64_t>(raw_.ids.size()) >= kMaxIds)
      refuse("ids", "more than 2^31", "fewer");
    raw_.ids.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(
        id, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max())));
  }

  void take_nested(const json& tokens) {
    if (!tokens.is_array()) refuse("ids", shown(tokens), "[token][layer][k]");
    for (const json& token : tokens) {
      if (!token.is_array() || token.empty())
        refuse("ids", shown(token), "a list of layers a token");
      if (raw_.layers == 0)
        raw_.layers = static_cast<int>(std::min<std::size_t>(token.size(), 4097));
      if (token.size() != static_cast<std::size_t>(raw_.layers) || raw_.layers > 4096)
        refuse("ids", fmt::format("{} layers", token.size()),
               fmt::format("{} as before, at most 4096", raw_.layers));
      for (const json& row : token) {
        if (!row.is_array() || row.empty()) refuse("ids", shown(row), "a list of k ids a layer");
        if (raw_.k == 0) raw_.k = static_cast<int>(std::min<std::size_t>(row.size(), 65));
        if (row.size() != static_cast<std::size_t>(raw_.k) || raw_.k > 64)
          refuse("ids", fmt::format("{} ids", row.size()),
                 fmt::format("k = {} as before, at most 64", raw_.k));
        for (const json& id : row) {
          if (!id.is_number_integer()) refuse("ids", shown(id), "whole numbers");
          add_id(id.is_number_unsigned() && id.get<std::uint64_t>() > INT32_MAX
                     ? INT32_MAX
                     : id.get<std::int64_t>());
        }
      }
      ++raw_.tokens;
    }
  }

  void take_base64(const std::string& text) {
    if (raw_.k == 0) raw_.k = model_k_;
    if (raw_.layers == 0) raw_.layers = model_layers_;
    if (raw_.k == 0 || raw_.layers == 0)
      refuse("ids", "base64",
             "the numbers of layers and k beside it (--model, or --layers and --k)");
    std::uint32_t bits = 0, word = 0;
    int held = 0, bytes = 0;
    std::int64_t ids = 0;
    for (const char c : text) {
      int value;
      if (c >= 'A' && c <= 'Z')
        value = c - 'A';
      else if (c >= 'a' && c <= 'z')
        value = c - 'a' + 26;
      else if (c >= '0' && c <= '9')
        value = c - '0' + 52;
      else if (c == '+' || c == '-')
        value = 62;
      else if (c == '/' || c == '_')
        value = 63;
      else if (c == '=')
        break;
      else
        refuse("ids", "a character that is not base64", "base64 of int32");
      bits = (bits << 6 | static_cast<std::uint32_t>(value)) & 0xffff;
      held += 6;
      if (held < 8) continue;
      held -= 8;
      word |= ((bits >> held) & 0xff) << (8 * bytes);
      if (++bytes < 4) continue;
      add_id(static_cast<std::int32_t>(word));
      ++ids;
      word = 0;
      bytes = 0;
    }
    const std::int64_t row = static_cast<std::int64_t>(raw_.layers) * raw_.k;
    if (bytes != 0 || ids % row != 0)
      refuse("ids", fmt::format("{} numbers", ids),
             fmt::format("a multiple of layers x k = {}", row));
    raw_.tokens += ids / row;
  }

  void note_request(const json& root, std::int64_t first, std::int64_t tokens) {
    if (tokens == 0) return;
    std::string key =
        fmt::format("line {}", number_);  // a line without a name is a request of its own
    for (const char* name : {"request", "request_id", "id"})
      if (const auto found = root.find(name);
          found != root.end() && (found->is_string() || found->is_number())) {
        key = found->dump(-1, ' ', false, json::error_handler_t::replace);
        break;
      }
    std::string domain;
    if (const auto found = root.find("domain"); found != root.end() && found->is_string())
      domain = found->get<std::string>().substr(0, 1000);
    std::int64_t prompt = 0;
    for (const char* name : {"prompt", "prompt_tokens"})
      if (const auto found = root.find(name); found != root.end() && found->is_number_unsigned())
        prompt = static_cast<std::int64_t>(
            std::min<std::uint64_t>(found->get<std::uint64_t>(), INT32_MAX));
    const auto [found, is_new] = known_.try_emplace(key, static_cast<int>(requests_.size()));
    if (is_new) {
      int index = 0;
      while (index < static_cast<int>(domains_.size()) && domains_[index] != domain) ++index;
      if (index == static_cast<int>(domains_.size())) domains_.push_back(domain);
      if (domains_.size() > 4096) refuse("domain", "more than 4096 different", "kinds of text");
      requests_.push_back({index, static_cast<int>(prompt), {}});
    }
    requests_[found->second].runs.push_back({first, tokens});
  }

  const ImportOptions& options_;
  RawIds raw_;
  TraceInfo info_;
  int model_k_ = 0, model_layers_ = 0;
  std::int64_t number_ = 0;
  std::vector<std::string> domains_;
  std::vector<Request> requests_;
  std::unordered_map<std::string, int> known_;
};

}  // namespace

ImportedTrace import_json_lines(std::string_view text, const ImportOptions& options) {
  Lines lines(options);
  std::int64_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) lines.take(line, number);
  }
  return lines.finish();
}

}  // namespace ramp
