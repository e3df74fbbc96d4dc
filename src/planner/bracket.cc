#include "planner/bracket.h"

#include <algorithm>

namespace lowtide::planner {
namespace {

/// The next layout wastes other bytes than the last one. So the strategy is asked for less by the
/// missing bytes times this margin: a fixed one when some plan fits, and a growing one until then.
/// A small margin costs little, and time that is left can mend it; many attempts take that time.
constexpr double kLaterMargin = 1.25;
constexpr double kMarginGrowth = 2.5;
/// Missing bytes count as this part of the budget at least: 1 / 2000.
constexpr Bytes kLeastMissing = 2000;
/// A bracket narrower than this part of the budget is not worth another attempt: 1 / 250.
constexpr Bytes kWorthATry = 250;

}  // namespace

std::optional<Bytes> Bracket::after_infeasible(Bytes asked) {
  lower_ = std::max(lower_, asked);
  return upper_ ? between() : std::nullopt;
}

std::optional<Bytes> Bracket::after_too_large(Bytes asked, Bytes missing, bool has_plan) {
  const double margin = has_plan ? kLaterMargin : margin_;
  margin_ *= kMarginGrowth;
  upper_ = std::min(upper_.value_or(asked), asked);
  const auto counted = static_cast<double>(std::max(missing, budget_ / kLeastMissing));
  const Bytes less = asked - static_cast<Bytes>(margin * counted) - 1;
  return less > lower_ ? less : between();
}

std::optional<Bytes> Bracket::after_fitting(Bytes asked) {
  lower_ = std::max(lower_, asked);
  return upper_ ? between() : std::nullopt;
}

/// Halfway between the two ends, as long as that is worth an attempt.
std::optional<Bytes> Bracket::between() const {
  const Bytes width = *upper_ - lower_;
  if (width < 2 || width < budget_ / kWorthATry) return std::nullopt;
  return lower_ + width / 2;
}

}  // namespace lowtide::planner
