#include "plan/second_place_json.h"

#include <array>

#include "base/json_record.h"
#include "plan/lanes_json.h"

namespace lowtide {
namespace {

using SecondPlaceJson = nlohmann::ordered_json;

std::optional<Bytes> read_limit(JsonValue value) {
  if (value.is(JsonTape::Kind::null)) return std::nullopt;
  return value.integer();
}

/// Of the first place and of this one.
bool read_budgets(SecondPlace& second, JsonValue value) {
  const std::vector<JsonValue> budgets = value.items();
  if (budgets.size() != 2) throw InputError("must be [bytes or null, bytes or null]");
  second.first_budget = read_limit(budgets[0]);
  second.budget = read_limit(budgets[1]);
  return true;
}

constexpr std::array kSecondPlaceFields = std::to_array<Field<SecondPlace>>({
    {"begin", true,
     [](SecondPlace& s, JsonValue v) {
       s.begin = v.integer();
       if (s.begin < 0) throw InputError("must be 0 or more");
       return true;
     }},
    {"lane_out", true,
     [](SecondPlace& s, JsonValue v) {
       s.lanes.out = read_lane(v);
       return true;
     }},
    {"lane_in", true,
     [](SecondPlace& s, JsonValue v) {
       s.lanes.in = read_lane(v);
       return true;
     }},
    {"lanes_shared", false,
     [](SecondPlace& s, JsonValue v) {
       s.lanes.shared = v.boolean();
       return true;
     }},
    {"budgets", false, read_budgets},
});

SecondPlaceJson limit_json(std::optional<Bytes> bytes) {
  return bytes ? SecondPlaceJson(*bytes) : SecondPlaceJson(nullptr);
}

}  // namespace

SecondPlace read_second_place(JsonValue value) {
  SecondPlace second;
  Record<SecondPlace> record(kSecondPlaceFields);
  for (const JsonValue::Member& member : value.members()) {
    record.read(second, member.key, member.value);
  }
  record.finish();
  return second;
}

SecondPlaceJson second_place_json(const SecondPlace& second) {
  SecondPlaceJson document{{"begin", second.begin},
                           {"lane_out", lane_json(second.lanes.out)},
                           {"lane_in", lane_json(second.lanes.in)},
                           {"lanes_shared", second.lanes.shared}};
  document["budgets"] =
      SecondPlaceJson::array({limit_json(second.first_budget), limit_json(second.budget)});
  return document;
}

}  // namespace lowtide
