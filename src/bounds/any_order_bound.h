#pragma once

#include <memory>

#include "base/control.h"
#include "certify/certificate.h"
#include "remat/stage_graph.h"

namespace lowtide::bounds {

/// The proof of a lower bound on the cost of any plan within the budget, in whatever order: the
/// bound of bounds/price_bound.h over what all orders share (bounds/any_order.h).
///
/// `fixed_order` is a certificate for the graph's order and the same budget. Chains through what it
/// prices, and through as many ops as there are, are tried; then those of their ops that get a
/// price, since the fewer ops are on a chain, the more have a known place beside it. `work` as for
/// PriceBound, in all. Its bound is at least what every plan costs, also when `control` ends it.
std::shared_ptr<const certify::Certificate> any_order_bound(const Graph& graph,
                                                            const remat::StageGraph& stages,
                                                            const certify::Certificate& fixed_order,
                                                            double work, const Control& control);

}  // namespace lowtide::bounds
