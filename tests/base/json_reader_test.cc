#include "base/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <sstream>
#include <streambuf>
#include <utility>

#include "base/error.h"

namespace lowtide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::array<std::string_view, 1> kStreamed{"list"};

/// The calls of the listener: "key=json" for a member, "key[i]=json" for an element.
std::vector<std::string> heard(const std::string& text) {
  std::vector<std::string> events;
  JsonListener listener;
  listener.member = [&](std::string_view key, JsonValue value) {
    events.push_back(std::string(key) + "=" + value.to_json().dump());
  };
  listener.element = [&](std::string_view key, std::size_t index, JsonValue value) {
    events.push_back(std::string(key) + "[" + std::to_string(index) +
                     "]=" + value.to_json().dump());
  };
  std::istringstream stream(text);
  read_json_object(stream, kStreamed, listener);
  return events;
}

TEST(JsonReader, HandsOnMembersAndElementsInOrder) {
  EXPECT_THAT(heard(R"({"a": 1, "list": [{"x": [1, {"y": null}]}, 2, []], "b": {"c": "d"}})"),
              ElementsAre("a=1", R"(list[0]={"x":[1,{"y":null}]})", "list[1]=2", "list[2]=[]",
                          R"(b={"c":"d"})"));
  EXPECT_THAT(heard(R"({"list": [], "b": true})"), ElementsAre("b=true"));
  EXPECT_THAT(heard(R"({"list": 3})"), ElementsAre("list=3"));
  EXPECT_THAT(heard("{}"), ElementsAre());
}

TEST(JsonReader, KeepsEveryKindOfValue) {
  const std::string value =
      R"([null,true,false,-9223372036854775808,18446744073709551615,0.1,1e+300,"é\n",{},[]])";
  EXPECT_THAT(heard("{\"a\": " + value + "}"), ElementsAre("a=" + value));
}

TEST(JsonReader, StreamsOnlyAtTheRoot) {
  EXPECT_THAT(heard(R"({"a": {"list": [1]}})"), ElementsAre(R"(a={"list":[1]})"));
}

struct BadJson {
  const char* text;
  const char* why;
};

class JsonReaderRefuses : public ::testing::TestWithParam<BadJson> {};

TEST_P(JsonReaderRefuses, AndSaysWhy) {
  EXPECT_THAT([&] { heard(GetParam().text); },
              ThrowsMessage<InputError>(HasSubstr(GetParam().why)));
}

INSTANTIATE_TEST_SUITE_P(
    All, JsonReaderRefuses,
    ::testing::Values(BadJson{"", "is empty"}, BadJson{" \n", "not valid JSON"},
                      BadJson{"hello", "not valid JSON"},
                      BadJson{"{\"a\": 1", "line 1, column 8"},
                      BadJson{"{\"a\": 1", "cut short"}, BadJson{"{\"a\":\n 1,}", "line 2"},
                      BadJson{"{\"a\": NaN}", "JSON has no NaN"},
                      BadJson{"{\"a\": -Infinity}", "JSON has no NaN or Infinity"},
                      BadJson{"{\"a\": 1e999}", "number overflow"},
                      BadJson{"{\"a\": \"\xff\"}", "UTF-8"}, BadJson{"{}x", "not valid JSON"},
                      BadJson{"[1]", "one JSON object"}, BadJson{"3", "one JSON object"},
                      BadJson{"null", "one JSON object"},
                      BadJson{R"({"a": 1, "a": 2})", "\"a\" appears twice"}));

/// A text followed by endless opening brackets.
class EndlessNesting : public std::streambuf {
 public:
  explicit EndlessNesting(std::string text) : buffer_(std::move(text)) { show(); }

 private:
  int_type underflow() override {
    buffer_.assign(4096, '[');
    show();
    return traits_type::to_int_type('[');
  }
  void show() { setg(buffer_.data(), buffer_.data(), buffer_.data() + buffer_.size()); }

  std::string buffer_;
};

TEST(JsonReader, StopsInEndlessNesting) {
  for (const auto& [text, why] : {BadJson{"", "one JSON object"},
                                  BadJson{"{\"a\": ", "nested more than 64"},
                                  BadJson{"{\"list\": ", "nested more than 64"}}) {
    EndlessNesting nesting(text);
    std::istream stream(&nesting);
    const JsonListener ignore{[](std::string_view, JsonValue) {},
                              [](std::string_view, std::size_t, JsonValue) {}};
    EXPECT_THAT([&] { read_json_object(stream, kStreamed, ignore); },
                ThrowsMessage<InputError>(HasSubstr(why)));
  }
}

TEST(JsonReader, NamesNoInternals) {
  try {
    heard("{\"a\": oops}");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("json.exception")));
  }
}

TEST(JsonReader, QuotesNoWholeFile) {
  try {
    heard("{\"a\": 1" + std::string(1'000'000, '0') + "}");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_LT(std::string_view(error.what()).size(), 500u);
  }
}

TEST(JsonReader, GoesJustDeepEnough) {
  const auto nested = [](int depth) {
    return "{\"a\": " + std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']') + "}";
  };
  EXPECT_NO_THROW(heard(nested(63)));
  EXPECT_THROW(heard(nested(64)), InputError);
}

/// Applies `read` to the value of "a".
template <typename Read>
auto reading(const std::string& value, Read read) {
  return [value, read] {
    JsonListener listener;
    listener.member = [&](std::string_view, JsonValue v) { read(v); };
    std::istringstream stream("{\"a\": " + value + "}");
    read_json_object(stream, {}, listener);
  };
}

TEST(JsonValue, SaysWhatItFoundInstead) {
  const auto integer = [](JsonValue v) { v.integer(); };
  EXPECT_THAT(reading("1.0", integer), ThrowsMessage<InputError>(HasSubstr("whole number, not 1")));
  EXPECT_THAT(reading("9223372036854775808", integer),
              ThrowsMessage<InputError>(HasSubstr("below 2^63, not 9223372036854775808")));
  EXPECT_THAT(reading("\"7\"", integer), ThrowsMessage<InputError>(HasSubstr("not \"7\"")));
  EXPECT_THAT(reading("true", integer), ThrowsMessage<InputError>(HasSubstr("not true")));
  EXPECT_THAT(reading("[]", [](JsonValue v) { v.text(); }),
              ThrowsMessage<InputError>(HasSubstr("must be a text, not an array")));
  EXPECT_THAT(reading("{}", [](JsonValue v) { v.items(); }),
              ThrowsMessage<InputError>(HasSubstr("must be a list, not an object")));
  EXPECT_THAT(reading("null", [](JsonValue v) { v.number(); }),
              ThrowsMessage<InputError>(HasSubstr("must be a number, not null")));
  EXPECT_THAT(reading("1", [](JsonValue v) { v.boolean(); }),
              ThrowsMessage<InputError>(HasSubstr("must be true or false, not 1")));
  EXPECT_THAT(reading("[0, -1]", [](JsonValue v) { v.indices(); }),
              ThrowsMessage<InputError>(HasSubstr("must be an index")));
  EXPECT_THAT(reading("[4294967296]", [](JsonValue v) { v.indices(); }),
              ThrowsMessage<InputError>(HasSubstr("must be an index")));
}

}  // namespace
}  // namespace lowtide
