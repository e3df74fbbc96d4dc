#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/json_reader.h"
#include "plan/lanes.h"

namespace lowtide {

/// A lane in the files of plans and of certificates: [latency, time per byte]. Throws InputError.
inline Lane read_lane(JsonValue value) {
  const std::vector<JsonValue> items = value.items();
  if (items.size() != 2) throw InputError("must be [latency, time per byte]");
  const Lane lane{items[0].number(), items[1].number()};
  if (lane.latency >= 0 && lane.per_byte >= 0) return lane;
  throw InputError("has a negative time");
}

inline nlohmann::ordered_json lane_json(const Lane& lane) {
  return nlohmann::ordered_json::array({lane.latency, lane.per_byte});
}

}  // namespace lowtide
