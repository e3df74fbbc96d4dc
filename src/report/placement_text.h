#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "parallel/placement_search.h"
#include "parallel/units/unit.h"
#include "report/fold.h"

namespace lowtide::report {

/// For people: the best placement with a line for each group of ranks, the memory of the fullest
/// ranks, the plans of the stages, then the other widths, those that do not fit, and the bounds.
/// Tables are at most `columns` wide.
std::string format_placements(const parallel::LayeredModel& model, const parallel::Cluster& cluster,
                              const parallel::FoundPlacements& found,
                              std::size_t columns = kAnyWidth);

/// For programs: docs/reference/command-line.md lists the keys.
nlohmann::ordered_json placements_json(const parallel::LayeredModel& model,
                                       const parallel::Cluster& cluster,
                                       const parallel::FoundPlacements& found);

}  // namespace lowtide::report
