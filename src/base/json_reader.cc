#include "base/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "base/at.h"
#include "base/error.h"

namespace lowtide {
namespace {

using JsonKind = JsonTape::Kind;

constexpr std::size_t kDeepest = 64;
/// Of a parser's error, which quotes what it read last, however long that is.
constexpr std::size_t kLongestReason = 200;

std::string describe(const JsonTape::Token& token, std::string_view text) {
  switch (token.kind) {
    case JsonKind::null: return "null";
    case JsonKind::boolean: return token.integer != 0 ? "true" : "false";
    case JsonKind::integer: return fmt::format("{}", token.integer);
    case JsonKind::big_integer: return fmt::format("{}", static_cast<std::uint64_t>(token.integer));
    case JsonKind::number: return fmt::format("{}", token.number);
    case JsonKind::text: return fmt::format("\"{}\"", text.substr(0, 40));
    case JsonKind::array: return "an array";
    case JsonKind::object: return "an object";
  }
  return "something else";
}

/// Receives the parser's events; builds one member or element at a time on a tape and passes it on.
class Handler {
 public:
  using Json = nlohmann::json;

  Handler(std::span<const std::string_view> streamed, const JsonListener& listener)
      : streamed_(streamed), listener_(listener) {}

  bool null() {
    return scalar([&] { tape_.add(JsonKind::null); });
  }
  bool boolean(bool value) {
    return scalar([&] { tape_.add(JsonKind::boolean, value); });
  }
  bool number_integer(Json::number_integer_t value) {
    return scalar([&] { tape_.add(JsonKind::integer, value); });
  }
  bool number_unsigned(Json::number_unsigned_t value) {
    const bool fits = value <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    const JsonKind kind = fits ? JsonKind::integer : JsonKind::big_integer;
    return scalar([&] { tape_.add(kind, static_cast<std::int64_t>(value)); });
  }
  bool number_float(Json::number_float_t value, const std::string&) {
    return scalar([&] { tape_.add(JsonKind::number, 0, value); });
  }
  bool string(std::string& value) {
    return scalar([&] { tape_.add_text(value); });
  }
  bool binary(Json::binary_t&) { return false; }  // JSON text has none
  bool start_object(std::size_t) {
    if (depth_ > 0) return start(JsonKind::object);
    depth_ = 1;
    return true;
  }
  bool start_array(std::size_t) {
    if (depth_ == 1 && std::ranges::find(streamed_, keys_.back()) != streamed_.end()) {
      in_stream_ = true;
      element_ = 0;
      depth_ = 2;
      return true;
    }
    return start(JsonKind::array);
  }
  bool end_object() { return end(); }
  bool end_array() { return end(); }
  bool key(std::string& name) {
    if (depth_ > 1) {
      tape_.add_text(name);
      return true;
    }
    if (!known_.insert(name).second) {
      throw InputError(fmt::format("the key \"{}\" appears twice", name));
    }
    keys_.push_back(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string& last, const nlohmann::detail::exception& e) {
    if (depth_ == 0 && last.empty()) throw InputError("the file is empty");
    // "[json.exception.parse_error.101] parse error at line 1, column 4: ..."
    std::string what = e.what();
    what.erase(0, what.find("] ") + 2);
    const bool cut = what.find("unexpected end of input") != std::string::npos;
    if (what.size() > kLongestReason) what.replace(kLongestReason, std::string::npos, "...");
    const bool word = last.ends_with('N') || last.ends_with('I') || last.ends_with("-I");
    throw InputError(fmt::format("this is not valid JSON: {}{}", what,
                                 cut    ? " (the file may have been cut short)"
                                 : word ? " (JSON has no NaN or Infinity: numbers are finite)"
                                        : ""));
  }

  const std::vector<std::string>& keys() const { return keys_; }

 private:
  template <typename Add>
  bool scalar(Add add) {
    require_object();
    add();
    hand_on();
    return true;
  }

  bool start(JsonKind kind) {
    require_object();
    if (++depth_ > kDeepest) {
      throw InputError(fmt::format("values are nested more than {} deep", kDeepest));
    }
    tape_.open(kind);
    return true;
  }

  bool end() {
    --depth_;
    if (depth_ == 0) return true;
    if (in_stream_ && depth_ == 1) {
      in_stream_ = false;
      return true;
    }
    tape_.close();
    hand_on();
    return true;
  }

  void require_object() const {
    if (depth_ == 0) throw InputError("the document must be one JSON object: {...}");
  }

  void hand_on() {
    if (!tape_.complete()) return;
    if (in_stream_) {
      listener_.element(keys_.back(), element_++, tape_.root());
    } else {
      listener_.member(keys_.back(), tape_.root());
    }
    tape_.clear();
  }

  std::span<const std::string_view> streamed_;
  const JsonListener& listener_;
  JsonTape tape_;
  std::size_t depth_ = 0;                  // number of open brackets
  std::vector<std::string> keys_;          // of the root; the last is the current one
  std::unordered_set<std::string> known_;  // the same
  bool in_stream_ = false;
  std::size_t element_ = 0;
};

}  // namespace

void JsonTape::clear() {
  tokens_.clear();
  text_.clear();
}

void JsonTape::add(JsonKind kind, std::int64_t integer, double number) {
  const auto next = static_cast<std::int32_t>(tokens_.size() + 1);
  tokens_.push_back({kind, next, integer, number, 0});
}

void JsonTape::add_text(std::string_view text) {
  add(JsonKind::text, static_cast<std::int64_t>(text_.size()));
  tokens_.back().length = static_cast<std::int64_t>(text.size());
  text_ += text;
}

void JsonTape::open(JsonKind kind) {
  open_.push_back(static_cast<std::int32_t>(tokens_.size()));
  add(kind);
}

void JsonTape::close() {
  tokens_[at(open_.back())].end = static_cast<std::int32_t>(tokens_.size());
  open_.pop_back();
}

JsonValue JsonTape::root() const { return {this, 0}; }

void JsonValue::refuse(std::string_view expected) const {
  const std::string_view text = is(JsonKind::text) ? this->text() : std::string_view{};
  throw InputError(fmt::format("must be {}, not {}", expected, describe(token(), text)));
}

void JsonValue::expect(JsonKind kind, std::string_view expected) const {
  if (!is(kind)) refuse(expected);
}

template <typename Visit>
void JsonValue::for_each_child(Visit visit) const {
  std::int32_t child = index_ + 1;
  while (child < token().end) {
    visit(JsonValue(tape_, child));
    child = tape_->tokens_[at(child)].end;
  }
}

bool JsonValue::boolean() const {
  expect(JsonKind::boolean, "true or false");
  return token().integer != 0;
}

std::int64_t JsonValue::integer() const {
  if (is(JsonKind::big_integer)) refuse("a whole number below 2^63");
  expect(JsonKind::integer, "a whole number");
  return token().integer;
}

std::int32_t JsonValue::index() const {
  const bool fits = is(JsonKind::integer) && token().integer >= 0 &&
                    token().integer <= std::numeric_limits<std::int32_t>::max();
  if (!fits) refuse("an index (0, 1, 2, ...)");
  return static_cast<std::int32_t>(token().integer);
}

double JsonValue::number() const {
  if (is(JsonKind::number)) return token().number;
  const std::int64_t integer = token().integer;
  if (is(JsonKind::big_integer)) return static_cast<double>(static_cast<std::uint64_t>(integer));
  expect(JsonKind::integer, "a number");
  return static_cast<double>(integer);
}

std::string_view JsonValue::text() const {
  expect(JsonKind::text, "a text");
  return std::string_view(tape_->text_)
      .substr(static_cast<std::size_t>(token().integer), static_cast<std::size_t>(token().length));
}

std::vector<std::int64_t> JsonValue::integers() const {
  expect(JsonKind::array, "a list of whole numbers");
  std::vector<std::int64_t> result;
  for_each_child([&](JsonValue child) { result.push_back(child.integer()); });
  return result;
}

std::vector<std::int32_t> JsonValue::indices() const {
  expect(JsonKind::array, "a list of indices");
  std::vector<std::int32_t> result;
  for_each_child([&](JsonValue child) { result.push_back(child.index()); });
  return result;
}

std::vector<JsonValue> JsonValue::items() const {
  expect(JsonKind::array, "a list");
  std::vector<JsonValue> result;
  for_each_child([&](JsonValue child) { result.push_back(child); });
  return result;
}

std::vector<JsonValue::Member> JsonValue::members() const {
  expect(JsonKind::object, "an object {...}");
  std::vector<Member> result;
  bool is_key = true;
  for_each_child([&](JsonValue child) {
    if (is_key) {
      result.push_back({child.text(), child});
    } else {
      result.back().value = child;
    }
    is_key = !is_key;
  });
  return result;
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  for (const Member& member : members()) {
    if (member.key == key) return member.value;
  }
  return std::nullopt;
}

nlohmann::ordered_json JsonValue::to_json() const {
  switch (kind()) {
    case JsonKind::null: return nullptr;
    case JsonKind::boolean: return boolean();
    case JsonKind::integer: return integer();
    case JsonKind::big_integer: return static_cast<std::uint64_t>(token().integer);
    case JsonKind::number: return number();
    case JsonKind::text: return std::string(text());
    case JsonKind::array: break;
    case JsonKind::object: {
      nlohmann::ordered_json::object_t object;  // adds members without a search for their keys
      for (const Member& member : members()) {
        object.push_back({std::string(member.key), member.value.to_json()});
      }
      return object;
    }
  }
  auto array = nlohmann::ordered_json::array();
  for_each_child([&](JsonValue child) { array.push_back(child.to_json()); });
  return array;
}

std::vector<std::string> read_json_object(std::istream& stream,
                                          std::span<const std::string_view> streamed,
                                          const JsonListener& listener) {
  Handler handler(streamed, listener);
  nlohmann::json::sax_parse(stream, &handler);
  return handler.keys();
}

}  // namespace lowtide
