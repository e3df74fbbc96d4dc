#pragma once

#include <memory>

#include "plan/plan.h"
#include "slower/place.h"

namespace lowtide::runtime {

/// A store in each place that the plan uses, as one. `second`: null where the plan knows one place
/// alone. A place in which nothing lies may be null too. Throws as slower::Place::open().
std::unique_ptr<slower::Store> open_places(const SlowerMemory& wanted, const slower::Place* first,
                                           const slower::Place* second);

}  // namespace lowtide::runtime
