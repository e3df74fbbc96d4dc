#pragma once

#include <nlohmann/json.hpp>

#include "base/json_reader.h"
#include "plan/plan.h"

namespace lowtide {

/// The second place of slower memory in the file of a plan. Throws InputError.
SecondPlace read_second_place(JsonValue value);

nlohmann::ordered_json second_place_json(const SecondPlace& second);

}  // namespace lowtide
