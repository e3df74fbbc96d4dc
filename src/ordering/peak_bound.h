#pragma once

#include <cstdint>
#include <optional>

#include "ordering/schedule.h"

namespace lowtide::ordering {

/// A lower bound on the peak of all orders in which every stage runs once: the largest need of any
/// stage (before_cut.h), and the bytes held in the end. Skips stages that need no more in the
/// given schedule than the bound so far, so few are examined when the bound is tight. Makes at
/// most `cuts` minimum cuts, subtracts them from `cuts`, and stops once the bound is above
/// `enough`.
Bytes peak_bound(const Schedule& schedule, std::int64_t& cuts, Bytes enough);

/// The precedence that all orders with a peak of at most `limit` share: if a stage
/// would need more after another stage ran, it comes first, and vice versa (as in
/// disjunctive scheduling: Carlier, Pinson, 1989), plus the consequences. Nothing
/// when there is no such order. Examines the `neediest` stages by minimum cuts,
/// repeatedly, until nothing new is found or `cuts` is used up; subtracts its cuts
/// from `cuts`.
std::optional<Precedence> precedence_within(Bytes limit, const Schedule& schedule, int neediest,
                                            std::int64_t& cuts);

}  // namespace lowtide::ordering
