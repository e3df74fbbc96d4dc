#pragma once

#include <cstdint>
#include <optional>

#include "ordering/schedule.h"

namespace lowtide::ordering {

/// A lower bound on the peak of all orders in which every stage runs once: the most that any needs
/// at least (before_cut.h), in the end too. Stages that need no more in the given schedule than
/// what is known already are left out, so that few are looked at where the bound is tight. Looks at
/// no more than `cuts`, from which it takes them off, and at no more once the bound is above
/// `enough`.
Bytes peak_bound(const Schedule& schedule, std::int64_t& cuts, Bytes enough);

/// What all orders with no more than `limit` bytes at the peak have in common, as a precedence of
/// its own: where one stage would need more if another had run before it, it comes first, and the
/// other way round (as disjunctive scheduling does: Carlier, Pinson, 1989); and what follows from
/// that. Nothing when there is no such order. Looks at the `neediest` stages by their minimum cuts,
/// again and again until nothing new comes out or so many cuts have been made; takes these off
/// `cuts`.
std::optional<Precedence> precedence_within(Bytes limit, const Schedule& schedule, int neediest,
                                            std::int64_t& cuts);

}  // namespace lowtide::ordering
