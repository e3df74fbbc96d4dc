#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "estimate/estimate.h"
#include "report/fold.h"

namespace lowtide::report {

inline constexpr int kEstimateRows = 12;

/// For people: parts of the memory in full and at the peak, then the activations by layer and by
/// kind of op, at most `most` lines each. Layers whose paths differ in numbers alone are one line.
/// Tables are at most `columns` wide.
std::string format_estimate(const estimate::Estimate& estimate, int most = kEstimateRows,
                            std::size_t columns = kAnyWidth);

/// For programs: name, parameters, peak_bytes, in_place_peak_bytes (null for no graph), peak_op,
/// peak_phase, whole, at_peak, by_layer and by_kind (bytes by name), notes, and planned
/// (budget_bytes, strategy, peak_bytes, overhead; null without a plan).
nlohmann::ordered_json estimate_json(const estimate::Estimate& estimate);

}  // namespace lowtide::report
