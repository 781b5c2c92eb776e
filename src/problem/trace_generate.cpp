// SPDX-License-Identifier: Apache-2.0
#include "problem/trace_generate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "problem/model_config.hpp"
#include "problem/random.hpp"

namespace ramp {
namespace {

constexpr int kBlocks = 8;  // of neighbouring experts, one a GPU of EP8

// Fitted by random search to Tables 6, 7 and 8 of the paper, one seed; docs/traces.md compares
// other seeds with them. Mixtral has one target, so popularity and domain can't be told apart;
// Qwen1.5-MoE has none and is set from the spread of its first layer in public vLLM logs.
const Calibration kCalibrations[] = {
    {"olmoe", 0.690, 0.565, 0.230, 0.600, -0.138, 0.060},
    {"qwen15", 0.250, 0.150, 0.100, 0.600, 0.000, 0.000},
    {"qwen2-57b", 0.250, 0.035, 0.054, 0.600, 0.000, 0.000},
    {"qwen3-30b", 0.795, 0.872, 0.315, 0.600, -0.055, 0.000},
    {"qwen35-35b", 0.911, 0.842, 0.290, 0.600, -0.074, 0.000},
    {"phi35", 0.337, 0.712, 0.246, 0.682, -0.004, 0.000},
    {"mixtral", 0.109, 0.300, 0.150, 0.600, 0.000, 0.000},
    {"deepseek-v3", 0.698, 0.732, 0.216, 0.600, -0.114, 0.075},
};

// Mean tokens of prompt and answer: chat from ShareGPT's first turns, the others from the
// benchmarks' texts.
struct Lengths {
  const char* domain;
  double prompt, output;
};
constexpr Lengths kLengths[] = {
    {"chat", 136, 470}, {"math", 100, 300}, {"code", 150, 400}, {"knowledge", 130, 300}};
constexpr double kPromptSpread = 0.6;  // of the logarithm
constexpr int kShortestPrompt = 8;
constexpr int kChunk = 2048;  // prompt tokens that an ordinary pass may carry

Lengths lengths_of(const std::string& domain) {
  for (const Lengths& lengths : kLengths)
    if (domain == lengths.domain) return lengths;
  return {"", 130, 350};
}

// Four lanes at a time: the compiler's vector types, on any machine.
constexpr int kLanes = 4;
using Floats = float __attribute__((vector_size(4 * kLanes)));
using Words = std::int32_t __attribute__((vector_size(4 * kLanes)));

// -ln u for u uniform in (0, 1), from 23 random bits: an exponential variate.  Series in
// (m-1)/(m+1), error below 1e-6; its own code because it is the inner loop and so that libraries
// can't change a trace.
inline Floats exponential_of(Words bits23) {
  const Floats u = (__builtin_convertvector(bits23, Floats) + 0.5f) * 0x1p-23f;
  const Words word = std::bit_cast<Words>(u);
  // In [1, 2); above the square root of 2 halved, so that the series is short.
  const Floats whole = std::bit_cast<Floats>((word & 0x7fffff) | 0x3f800000);
  const Words is_high = whole > 1.41421356f;
  const Floats m = is_high ? 0.5f * whole : whole;
  const Floats exponent =
      __builtin_convertvector((word >> 23) - 127 - is_high, Floats);  // true is -1
  const Floats t = (m - 1.0f) / (m + 1.0f), t2 = t * t;
  const Floats ln =
      2.0f * t * (1.0f + t2 * (0.33333333f + t2 * (0.2f + t2 * (0.14285714f + t2 * 0.11111111f))));
  return -(exponent * 0.69314718f + ln);
}

// Draws experts.  In place of the largest logit + Gumbel it takes the smallest exponential /
// exp(logit): the same order, since -ln of the latter is the former, and one logarithm fewer a
// draw.
class Router {
 public:
  Router(const GenerateOptions& options, int layers)
      : model_(options.model),
        calibration_(options.calibration),
        layers_(layers),
        uniform_(options.uniform),
        random_(options.seed, 200),
        draws_(options.seed, 201),
        padded_((options.model.shape.experts + kLanes - 1) / kLanes * kLanes),
        keys_(padded_) {
    popularity_ = popular();
    for (std::size_t d = 0; d < options.domains.size(); ++d) domain_.push_back(popular());
    drift_.resize(size());
    inverse_.resize(size());
  }

  // Rows of experts are padded to whole vectors everywhere.
  std::size_t size() const { return static_cast<std::size_t>(layers_) * padded_; }

  void begin_session(int domain) {
    session_domain_ = domain;
    for (float& z : drift_) z = static_cast<float>(random_.normal());
  }

  // Lets `passes` passes go by and fixes what all tokens of the next one share.
  void begin_pass(int passes) {
    const double keep = std::exp(-passes / calibration_.drift_passes);
    const double fresh = std::sqrt(1 - keep * keep);
    const std::vector<float>& domain = domain_[session_domain_];
    for (std::size_t i = 0; i < size(); ++i) {
      drift_[i] = static_cast<float>(keep * drift_[i] + fresh * random_.normal());
      const double logit = calibration_.popularity * popularity_[i] +
                           calibration_.domain * domain[i] + calibration_.drift * drift_[i];
      inverse_[i] = uniform_ ? 1.0f : static_cast<float>(std::exp(-logit));
    }
  }

  // exp(-s_r R) of a new request, [layer][expert].
  std::vector<float> new_request() {
    std::vector<float> taste(size(), 1.0f);
    if (!uniform_)
      for (float& t : taste)
        t = static_cast<float>(std::exp(-calibration_.request * random_.normal()));
    return taste;
  }

  // The ids of one token: [layer][k].
  void draw(const std::vector<float>& taste, std::int16_t* out) {
    const int k = model_.shape.top_k;
    for (int layer = 0; layer < layers_; ++layer, out += k) {
      const float* shared = inverse_.data() + static_cast<std::size_t>(layer) * padded_;
      const float* own = taste.data() + static_cast<std::size_t>(layer) * padded_;
      for (std::size_t e = 0; e < padded_; e += kLanes) {
        const std::uint64_t low = draws_.next(), high = draws_.next();
        const Words bits = {
            static_cast<std::int32_t>(low >> 41), static_cast<std::int32_t>(low & 0x7fffff),
            static_cast<std::int32_t>(high >> 41), static_cast<std::int32_t>(high & 0x7fffff)};
        Floats a, b;
        std::memcpy(&a, shared + e, sizeof a);
        std::memcpy(&b, own + e, sizeof b);
        const Floats key = exponential_of(bits) * a * b;
        std::memcpy(keys_.data() + e, &key, sizeof key);
      }
      if (model_.groups > 1) drop_groups();
      take_smallest(k, out);
      std::sort(out, out + k);
    }
  }

 private:
  std::vector<float> popular() {
    const int experts = model_.shape.experts;
    const double block = calibration_.block, tail = calibration_.tail;
    const bool blocks = experts % kBlocks == 0 && experts > kBlocks;
    const int width = blocks ? experts / kBlocks : experts;
    std::vector<float> out(size());
    std::vector<double> z(experts);
    for (int layer = 0; layer < layers_; ++layer) {
      for (double& value : z) {
        value = random_.normal();
        value = (value + tail * (value * value - 1) / 2) / std::sqrt(1 + tail * tail / 2);
      }
      for (int first = 0; blocks && block != 0 && first < experts; first += width) {
        const double common = block > 0 ? random_.normal() : 0;
        double mean = 0;
        for (int i = 0; i < width; ++i) mean += z[first + i] / width;
        for (int i = 0; i < width; ++i)
          z[first + i] = block > 0 ? std::sqrt(1 - block) * z[first + i] + std::sqrt(block) * common
                                   : z[first + i] + block * mean;
      }
      for (int e = 0; e < experts; ++e)
        out[static_cast<std::size_t>(layer) * padded_ + e] = static_cast<float>(z[e]);
    }
    return out;
  }

  // Group-limited routing: a group's worth is the sum of its two best logits, here the product of
  // its two smallest keys.
  void drop_groups() {
    const int width = model_.shape.experts / model_.groups;
    std::vector<std::pair<float, int>> worth(model_.groups);
    for (int g = 0; g < model_.groups; ++g) {
      float best = INFINITY, second = INFINITY;
      for (int i = 0; i < width; ++i) {
        const float key = keys_[g * width + i];
        if (key < best) {
          second = best;
          best = key;
        } else if (key < second) {
          second = key;
        }
      }
      worth[g] = {width > 1 ? best * second : best, g};
    }
    std::sort(worth.begin(), worth.end());
    for (int g = model_.groups_kept; g < model_.groups; ++g)
      std::fill_n(keys_.begin() + worth[g].second * width, width, INFINITY);
  }

  void take_smallest(int k, std::int16_t* out) {
    float best[64];
    int held = 0;
    for (int e = 0; e < model_.shape.experts; ++e) {
      const float key = keys_[e];
      if (held == k && key >= best[k - 1]) continue;
      int at = held < k ? held++ : k - 1;
      for (; at > 0 && best[at - 1] > key; --at) {
        best[at] = best[at - 1];
        out[at] = out[at - 1];
      }
      best[at] = key;
      out[at] = static_cast<std::int16_t>(e);
    }
  }

  Model model_;
  Calibration calibration_;
  int layers_;
  bool uniform_;
  Random random_, draws_;
  std::size_t padded_;
  std::vector<float> keys_;
  std::vector<float> popularity_, drift_, inverse_;  // [layer][expert]
  std::vector<std::vector<float>> domain_;
  int session_domain_ = 0;
};

// One domain, a fixed number of active requests.
class Session {
 public:
  Session(Router& router, Random& random, const std::string& domain, int concurrency,
          std::uint64_t& next_request)
      : router_(router),
        random_(random),
        lengths_(lengths_of(domain)),
        next_request_(next_request) {
    for (int i = 0; i < concurrency; ++i) {
      Request request = make_request();
      // In the middle of its answer: a loop that has run for long.
      request.left = std::max(1, static_cast<int>(request.left * random_.uniform()));
      active_.push_back(std::move(request));
    }
  }

  struct Part {
    int slot;  // of the active requests; -1: a burst's, in `extra`
    int tokens, prompt;
  };
  struct Request {
    std::uint64_t name;
    std::vector<float> taste;
    int left;  // tokens of its answer still to come
  };

  // What the next pass holds: a token of each active request, then the prompts of those that took a
  // finished one's place.
  std::vector<Part> next() {
    std::vector<Part> parts;
    int budget = kChunk - static_cast<int>(active_.size());
    for (int slot = 0; slot < static_cast<int>(active_.size()); ++slot) {
      if (--active_[slot].left > 0) {
        parts.push_back({slot, 1, 0});
        continue;
      }
      active_[slot] = make_request();
      const int prompt = std::clamp(prompt_length(), 1, std::max(1, budget));
      budget -= prompt;
      parts.push_back({slot, prompt, prompt});
    }
    return parts;
  }

  // Prompts of passing requests, until the pass holds max_tokens.
  void add_burst(std::vector<Part>& parts, int max_tokens) {
    extra_.clear();
    int tokens = 0;
    for (const Part& part : parts) tokens += part.tokens;
    while (tokens < max_tokens) {
      const int prompt = std::min(prompt_length(), max_tokens - tokens);
      extra_.push_back(make_request());
      parts.push_back({-1, prompt, prompt});
      tokens += prompt;
    }
  }

  const Request& active(int slot) const { return active_[slot]; }
  const Request& extra(int i) const { return extra_[i]; }

 private:
  int prompt_length() {
    return std::max(kShortestPrompt, static_cast<int>(std::exp(std::log(lengths_.prompt) +
                                                               kPromptSpread * random_.normal())));
  }
  Request make_request() {
    return {next_request_++, router_.new_request(),
            std::max(1, static_cast<int>(random_.gamma2(lengths_.output)))};
  }

  Router& router_;
  Random& random_;
  Lengths lengths_;
  std::uint64_t& next_request_;
  std::vector<Request> active_, extra_;
};

void check_options(const GenerateOptions& options) {
  check_model(options.model);
  auto positive = [](const char* name, long long value, long long limit) {
    if (value < 1 || value > limit)
      throw Error(name, fmt::format("{}", value), fmt::format("1 .. {}", limit),
                  "see ramp trace generate --help");
  };
  positive("--repeats", options.repeats, 1000);
  positive("--passes", options.passes, 1'000'000);
  positive("--stride", options.stride, 100'000);
  positive("--max-tokens", options.max_tokens, 1 << 17);
  positive("domains", static_cast<long long>(options.domains.size()), 256);
  positive("concurrencies", static_cast<long long>(options.concurrency.size()), 256);
  for (const int c : options.concurrency) positive("--concurrency", c, 8192);
  if (options.layers < 0 || options.layers > options.model.moe_layers)
    throw Error("--layers", fmt::format("{}", options.layers),
                fmt::format("0 (all) .. {}", options.model.moe_layers),
                "see ramp trace generate --help");
  if (!(options.burst_share >= 0 && options.burst_share <= 1))
    throw Error("--burst-share", fmt::format("{}", options.burst_share), "0 .. 1",
                "for example 0.3");
}

}  // namespace

std::span<const Calibration> calibrations() { return kCalibrations; }

const Calibration& find_calibration(const std::string& model) {
  std::string names;
  for (const Calibration& calibration : kCalibrations) {
    if (calibration.model == model) return calibration;
    names += (names.empty() ? "" : ", ") + calibration.model;
  }
  if (model == "deepseek-r1")
    return find_calibration("deepseek-v3");  // the same network, trained on
  throw Error(
      "calibration", "'" + model + "'", names,
      "name one of these with --calibration: the routing is then labelled with that model's");
}

TraceInfo generated_info(const GenerateOptions& options) {
  TraceInfo info;
  info.model = options.model.name;
  info.experts = options.model.shape.experts;
  info.top_k = options.model.shape.top_k;
  const int layers = options.layers == 0 ? options.model.moe_layers : options.layers;
  for (int i = 0; i < layers; ++i) info.layers.push_back(options.model.first_moe_layer + i);
  info.kind = TraceKind::kGenerated;
  info.phase = TracePhase::kMixed;
  info.source = "ramp trace generate";
  info.licence = "Apache-2.0";
  info.seed = options.seed;
  const Calibration& c = options.calibration;
  info.calibration =
      options.uniform
          ? "uniform"
          : fmt::format("{} (g {:.3f} d {:.3f} p {:.3f} r {:.3f} block {:.3f} tail {:.3f})",
                        c.model, c.popularity, c.domain, c.drift, c.request, c.block, c.tail);
  std::string loops;
  for (const int n : options.concurrency) loops += (loops.empty() ? "" : ",") + std::to_string(n);
  info.made = fmt::format(
      "closed loops of {} requests, {} passes each, every {}th, {} sessions a domain", loops,
      options.passes, options.stride, options.repeats * options.concurrency.size());
  return info;
}

void generate_passes(const GenerateOptions& options,
                     const std::function<void(const GeneratedPass&)>& sink) {
  check_options(options);
  const int layers = options.layers == 0 ? options.model.moe_layers : options.layers;
  const std::size_t row = static_cast<std::size_t>(layers) * options.model.shape.top_k;
  Router router(options, layers);
  Random random(options.seed, 202);
  std::uint64_t next_request = 0;
  int done = 0;
  const int total = static_cast<int>(options.domains.size() * options.concurrency.size()) *
                    options.repeats * options.passes;
  std::vector<GeneratedRun> runs;
  std::vector<std::int16_t> ids;
  for (int domain = 0; domain < static_cast<int>(options.domains.size()); ++domain)
    for (const int concurrency : options.concurrency)
      for (int repeat = 0; repeat < options.repeats; ++repeat) {
        router.begin_session(domain);
        Session session(router, random, options.domains[domain], concurrency, next_request);
        for (int p = 0; p < options.passes; ++p) {
          std::vector<Session::Part> parts;
          for (int s = 0; s < options.stride; ++s) parts = session.next();
          router.begin_pass(options.stride);
          if (random.uniform() < options.burst_share) {
            const double low =
                std::log2(std::min(options.max_tokens, std::max(32, 2 * concurrency)));
            const double high = std::log2(options.max_tokens);
            session.add_burst(
                parts,
                static_cast<int>(std::lround(std::exp2(low + (high - low) * random.uniform()))));
          }
          runs.clear();
          std::size_t tokens = 0;
          for (const auto& part : parts) tokens += part.tokens;
          ids.resize(tokens * row);
          std::int16_t* out = ids.data();
          int extra = 0;
          for (const auto& part : parts) {
            const Session::Request& request =
                part.slot >= 0 ? session.active(part.slot) : session.extra(extra++);
            runs.push_back({request.name, domain, part.tokens, part.prompt});
            for (int t = 0; t < part.tokens; ++t, out += row) router.draw(request.taste, out);
          }
          sink({runs, ids, ++done, total});
        }
      }
}

RoutingTrace generate_trace(const GenerateOptions& options) {
  RoutingTrace trace;
  trace.info = generated_info(options);
  trace.domains = options.domains;
  trace.pass_offsets = {0};
  std::vector<std::vector<std::int64_t>> members;  // of each request
  generate_passes(options, [&](const GeneratedPass& pass) {
    std::int64_t token = trace.tokens();
    trace.ids.insert(trace.ids.end(), pass.ids.begin(), pass.ids.end());
    for (const GeneratedRun& run : pass.runs) {
      if (run.request >= members.size()) {
        members.resize(run.request + 1);
        trace.requests.resize(run.request + 1);
      }
      trace.requests[run.request].domain = run.domain;
      trace.requests[run.request].prompt += run.prompt;
      for (int i = 0; i < run.tokens; ++i) members[run.request].push_back(token++);
    }
    trace.pass_offsets.push_back(token);
  });
  for (std::size_t r = 0; r < members.size(); ++r) {
    trace.requests[r].first = static_cast<std::int64_t>(trace.order.size());
    trace.requests[r].tokens = static_cast<int>(members[r].size());
    trace.order.insert(trace.order.end(), members[r].begin(), members[r].end());
  }
  check_trace(trace);
  return trace;
}

}  // namespace ramp
