#pragma once

#include <memory>

#include "base/control.h"
#include "certify/certificate.h"
#include "plan/plan.h"

namespace lowtide::offload {

/// The proof of a lower bound on the cost of any plan within the budget that may move values along
/// the lanes, and residents if `plan` moves some: for several weights of computing and of copies
/// back, the bound of the relaxed problem (certify/relaxed.h). At least the cost of running every
/// needed op once. The bound is for plans in the graph's order, or, where `plan` has another one,
/// in any order.
///
/// The lane out does not count, so that the bound is low where that lane alone is slow.
std::shared_ptr<const certify::Certificate> lower_bound(const Graph& graph, Bytes budget,
                                                        const Lanes& lanes, const Plan& plan,
                                                        Control& control);

}  // namespace lowtide::offload
