// SPDX-License-Identifier: Apache-2.0
#include "lab/worker_protocol.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "lab/measurement_file.hpp"

namespace ramp {
namespace {

using nlohmann::json;

constexpr const char* kKinds[] = {"open", "prepare", "verify", "measure"};

json from_config(const TimedConfig& c) {
  return {{"label", c.candidate.label},          {"knobs", c.candidate.knobs},
          {"grid", grid_text(c.candidate.grid)}, {"occupancy", c.candidate.occupancy},
          {"registers", c.candidate.registers},  {"smem", c.candidate.smem_bytes},
          {"status", status_name(c.status)},     {"reason", c.reason}};
}

TimedConfig to_config(const json& j) {
  TimedConfig c;
  c.candidate.label = j.at("label").get<std::string>();
  c.candidate.knobs = j.at("knobs").get<std::string>();
  c.candidate.grid = parse_grid(j.at("grid").get<std::string>(), "worker");
  c.candidate.occupancy = j.at("occupancy").get<std::string>();
  c.candidate.registers = j.at("registers").get<int>();
  c.candidate.smem_bytes = j.at("smem").get<int>();
  c.status = parse_status(j.at("status").get<std::string>(), "worker");
  c.reason = j.at("reason").get<std::string>();
  return c;
}

// One array of numbers a cell, three a sample.
json from_samples(const std::vector<std::vector<Sample>>& samples) {
  json cells = json::array();
  for (const auto& rounds : samples) {
    json numbers = json::array();
    for (const Sample& s : rounds) {
      numbers.push_back(s.us);
      numbers.push_back(s.sm_mhz);
      numbers.push_back(s.throttled ? 1 : 0);
    }
    cells.push_back(std::move(numbers));
  }
  return cells;
}

std::vector<std::vector<Sample>> to_samples(const json& cells) {
  std::vector<std::vector<Sample>> samples;
  for (const json& numbers : cells) {
    if (!numbers.is_array() || numbers.size() % 3 != 0)
      throw Error("worker", "samples that are no triples", "us, MHz, throttled", "");
    std::vector<Sample>& rounds = samples.emplace_back();
    for (std::size_t i = 0; i < numbers.size(); i += 3)
      rounds.push_back(
          {numbers[i].get<float>(), numbers[i + 1].get<float>(), numbers[i + 2].get<int>() != 0});
  }
  return samples;
}

MeasureRequest to_measure(const json& j) {
  MeasureRequest m;
  m.labels = j.at("labels").get<std::vector<std::string>>();
  m.loads = j.at("loads").get<std::vector<std::vector<int>>>();
  m.rounds = j.at("rounds").get<int>();
  const json& cells = j.at("cells");
  for (std::size_t i = 0; i + 2 < cells.size(); i += 3) {
    const Cell cell{cells[i].get<int>(), cells[i + 1].get<int>(), cells[i + 2].get<int>()};
    if (cell.config < 0 || cell.config >= static_cast<int>(m.labels.size()) || cell.load < 0 ||
        cell.load >= static_cast<int>(m.loads.size()))
      throw Error("cell", fmt::format("({}, {})", cell.config, cell.load),
                  "indices of labels and loads", "");
    m.cells.push_back(cell);
  }
  if (m.rounds < 1 || m.rounds > 1000)
    throw Error("rounds", std::to_string(m.rounds), "1 to 1000", "");
  return m;
}

json parse_line(const std::string& line) {
  json j = json::parse(line, nullptr, false);
  if (!j.is_object()) throw Error("line", line.substr(0, 80), "one JSON object", "");
  return j;
}

}  // namespace

std::string encode(const Request& request) {
  json j{{"do", kKinds[static_cast<int>(request.kind)]}};
  switch (request.kind) {
    case Request::Kind::kOpen:
      for (const ShapeField& field : shape_fields())
        j["shape"][field.key] = request.shape.*field.member;
      break;
    case Request::Kind::kPrepare:
    case Request::Kind::kVerify:
      j["labels"] = request.labels;
      break;
    case Request::Kind::kMeasure: {
      const MeasureRequest& m = request.measure;
      json cells = json::array();
      for (const Cell& cell : m.cells) {
        cells.push_back(cell.config);
        cells.push_back(cell.load);
        cells.push_back(cell.taken);
      }
      j.update({{"labels", m.labels}, {"loads", m.loads}, {"cells", cells}, {"rounds", m.rounds}});
    }
  }
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

Request decode_request(const std::string& line) try {
  const json j = parse_line(line);
  Request request;
  const auto kind = j.at("do").get<std::string>();
  int index = 0;
  while (index < 4 && kind != kKinds[index]) ++index;
  if (index == 4) throw Error("do", kind, "open, prepare, verify or measure", "");
  request.kind = static_cast<Request::Kind>(index);
  switch (request.kind) {
    case Request::Kind::kOpen:
      for (const ShapeField& field : shape_fields())
        request.shape.*field.member = j.at("shape").at(field.key).get<int>();
      break;
    case Request::Kind::kPrepare:
      request.labels = j.at("labels").get<std::vector<std::string>>();
      break;
    case Request::Kind::kVerify:
      request.labels = j.at("labels").get<std::vector<std::string>>();
      if (request.labels.size() != 1)
        throw Error("labels", std::to_string(request.labels.size()), "one", "");
      break;
    case Request::Kind::kMeasure:
      request.measure = to_measure(j);
  }
  return request;
} catch (const nlohmann::json::exception& e) {
  throw Error("request", e.what(), "a request of the worker protocol", "");
}

std::string encode(const Reply& reply) {
  json j = json::object();
  if (reply.is_progress) {
    j["progress"] = {reply.done, reply.total};
  } else if (!reply.error.empty()) {
    j["error"] = reply.error;
  } else {
    for (const ProvenanceField& field : provenance_fields())
      j["environment"][field.key] = reply.environment.*field.member;
    j["configs"] = json::array();
    for (const TimedConfig& config : reply.configs) j["configs"].push_back(from_config(config));
    j["verdict"] = reply.verdict;
    j["samples"] = from_samples(reply.samples);
  }
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

Reply decode_reply(const std::string& line) try {
  const json j = parse_line(line);
  Reply reply;
  if (j.contains("progress")) {
    reply.is_progress = true;
    reply.done = j["progress"].at(0).get<int>();
    reply.total = j["progress"].at(1).get<int>();
  } else if (j.contains("error")) {
    reply.error = j["error"].get<std::string>();
    if (reply.error.empty()) reply.error = "an error without a text";
  } else {
    for (const ProvenanceField& field : provenance_fields())
      reply.environment.*field.member = j.at("environment").at(field.key).get<std::string>();
    for (const json& config : j.at("configs")) reply.configs.push_back(to_config(config));
    reply.verdict = j.at("verdict").get<std::string>();
    reply.samples = to_samples(j.at("samples"));
  }
  return reply;
} catch (const nlohmann::json::exception& e) {
  throw Error("reply", e.what(), "a reply of the worker protocol", "");
}

}  // namespace ramp
