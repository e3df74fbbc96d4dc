#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "largest/interpolation.h"
#include "largest/steps.h"
#include "planner/planner.h"

namespace lowtide::largest {

/// How it is known whether a size fits.
enum class Evidence : std::uint8_t {
  bound,      ///< no plan of any kind needs as little
  estimated,  ///< planned, with times and workspaces from other sizes, or estimates
  measured,   ///< planned, with those measured at this size
  run         ///< the same, and a step ran within the budget, or exceeded it
};
/// "bound", "estimated", "measured", "run".
std::string_view name(Evidence evidence);

/// A size that was tried.
struct Trial {
  std::int64_t size = 0;
  Evidence evidence = Evidence::estimated;
  bool fits = false;
  std::string why_not;                      ///< where it does not fit, a phrase
  std::optional<double> overhead;           ///< of the plan, also where that takes too long
  std::optional<Bytes> smallest_budget;     ///< known, of one that does not fit
  std::optional<StepRun> run;               ///< where a step ran
  std::optional<InterpolationError> error;  ///< where times from other sizes were compared
};

/// The largest size that fits, and all that was tried for it.
struct Largest {
  std::int64_t size = 0;
  Evidence evidence = Evidence::estimated;
  planner::Planned planned;  ///< the plan of that size
  std::string costs;         ///< where its times come from (cost::cost_origin)
  std::optional<std::int64_t>
      too_large;  ///< the smallest that does not fit; none: the last one did
  Evidence too_large_evidence = Evidence::estimated;
  std::string why_too_large;
  std::vector<Trial> trials;  ///< in their order
  double planning_seconds = 0;
  bool stopped = false;  ///< by the user, before all was found out
};

}  // namespace lowtide::largest
