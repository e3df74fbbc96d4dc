#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lowtide {

class JsonValue;

/// One JSON value as a flat list of tokens in one buffer, used again for the next value: reading
/// a long array allocates nothing per element.
class JsonTape {
 public:
  enum class Kind : std::uint8_t {
    null,
    boolean,
    integer,
    big_integer,
    number,
    text,
    array,
    object
  };
  struct Token {
    Kind kind = Kind::null;
    std::int32_t end = 0;  ///< index of the first token after this value
    /// boolean, integer, big_integer (an unsigned one beyond 63 bits); of text: where it starts
    std::int64_t integer = 0;
    double number = 0;
    std::int64_t length = 0;  ///< of text
  };

  void clear();
  void add(Kind kind, std::int64_t integer = 0, double number = 0);
  void add_text(std::string_view text);
  void open(Kind kind);
  void close();
  bool complete() const { return open_.empty() && !tokens_.empty(); }
  JsonValue root() const;

 private:
  friend class JsonValue;
  std::vector<Token> tokens_;
  std::vector<std::int32_t> open_;
  std::string text_;
};

/// A value on a tape: a light handle. The readers throw an InputError that names the found and the
/// expected kind of value.
class JsonValue {
 public:
  struct Member;

  JsonValue(const JsonTape* tape, std::int32_t index) : tape_(tape), index_(index) {}

  JsonTape::Kind kind() const { return token().kind; }
  bool is(JsonTape::Kind kind) const { return token().kind == kind; }

  bool boolean() const;
  std::int64_t integer() const;  ///< a whole number of at most 63 bits, written without a point
  std::int32_t index() const;    ///< an integer in [0, 2^31)
  double number() const;         ///< with or without a point
  std::string_view text() const;
  std::vector<std::int64_t> integers() const;
  std::vector<std::int32_t> indices() const;
  std::vector<JsonValue> items() const;
  std::vector<Member> members() const;
  /// The first member `key` of an object.
  std::optional<JsonValue> find(std::string_view key) const;
  nlohmann::ordered_json to_json() const;

 private:
  const JsonTape::Token& token() const { return tape_->tokens_[static_cast<std::size_t>(index_)]; }
  void expect(JsonTape::Kind kind, std::string_view expected) const;
  [[noreturn]] void refuse(std::string_view expected) const;
  template <typename Visit>
  void for_each_child(Visit visit) const;

  const JsonTape* tape_;
  std::int32_t index_;
};

struct JsonValue::Member {
  std::string_view key;
  JsonValue value;
};

/// Callbacks for the members of a document's root object, in the order of the text.
struct JsonListener {
  std::function<void(std::string_view key, JsonValue value)> member;
  /// The elements of the arrays under the `streamed` keys.
  std::function<void(std::string_view key, std::size_t index, JsonValue value)> element;
};

/// Reads a JSON object from a stream in the memory of its largest member or, under the `streamed`
/// keys, of the largest element. Returns the keys of the root in the order of the text. Throws
/// InputError, with line and column where possible, when the text is empty, not JSON, cut short,
/// not an object, nested deeper than 64 levels, or has a key twice at the root.
std::vector<std::string> read_json_object(std::istream& stream,
                                          std::span<const std::string_view> streamed,
                                          const JsonListener& listener);

}  // namespace lowtide
