// SPDX-License-Identifier: Apache-2.0
#include "choice/plan_json.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include "base/error.hpp"

namespace ramp {
namespace {

using nlohmann::json;

// The JSON library's own tree builder accepts any size and depth, and of a key that comes twice it
// keeps the last.
class StrictBuilder : public nlohmann::json_sax<json> {
 public:
  json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool binary(binary_t&) override { return false; }
  bool string(string_t& value) override {
    check_text(value);
    return put(std::move(value));
  }

  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    check_text(name);
    open_.back().key = name;
    if (open_.back().value->contains(name)) refuse("a key that comes twice", "each key once");
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& e) override {
    throw Error(fmt::format("plan, byte {}", position), e.what(), "JSON in UTF-8",
                "take the file again from where it was made");
  }

 private:
  struct Container {
    json* value;
    std::string key;  // the last one, of an object
  };

  [[noreturn]] void refuse(const std::string& what, const std::string& allowed) const {
    throw Error(where(), what, allowed, "take the file again from where it was made");
  }

  std::string where() const {
    std::string at = "plan ";
    for (const Container& c : open_)
      at += "/" + (c.value->is_array() ? std::to_string(c.value->size()) : c.key.substr(0, 80));
    return at;
  }

  void check_text(const std::string& text) const {
    if (text.size() > kMaxText)
      refuse(fmt::format("a text of {} bytes", text.size()), fmt::format("up to {}", kMaxText));
    for (unsigned char c : text)
      if (c < 0x20 || c == 0x7f) refuse("a control character in a text", "printable text");
  }

  json* put(json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    json& parent = *open_.back().value;
    if (parent.size() >= kMaxItems)
      refuse(fmt::format("more than {} items", kMaxItems), fmt::format("up to {}", kMaxItems));
    if (parent.is_object()) return &(parent[open_.back().key] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  bool open(json container) {
    if (open_.size() >= kMaxDepth)
      refuse(fmt::format("nesting deeper than {}", kMaxDepth),
             fmt::format("up to {} levels", kMaxDepth));
    open_.push_back({put(std::move(container)), ""});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  json root_;
  std::vector<Container> open_;
};

}  // namespace

std::string identity_of(json plan) {
  plan.erase("identity");
  const std::string canonical = plan.dump();
  const XXH128_hash_t hash = XXH3_128bits(canonical.data(), canonical.size());
  return fmt::format("xxh3-128:{:016x}{:016x}", hash.high64, hash.low64);
}

json parse_strict_json(std::string_view text) {
  if (text.size() > kMaxPlanBytes)
    throw Error("plan", fmt::format("{} bytes", text.size()),
                fmt::format("up to {}", kMaxPlanBytes), "check that this is a plan");
  StrictBuilder builder;
  json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

}  // namespace ramp
