#pragma once

#include <memory>

#include "base/control.h"
#include "certify/certificate.h"
#include "remat/stage_graph.h"

namespace lowtide::bounds {

/// The proof of a lower bound on the cost of any plan within the budget, in any order: the bound of
/// bounds/price_bound.h over the common part of all orders (bounds/any_order.h).
///
/// `fixed_order` is a certificate for the graph's order and the same budget. Tries chains through
/// the ops that it prices, and through as many ops as possible; then their ops that get a price,
/// since a shorter chain fixes the slot of more other ops. `work` as for PriceBound, for all chains
/// together. The result is a valid bound also when `control` ends the search early.
std::shared_ptr<const certify::Certificate> any_order_bound(const Graph& graph,
                                                            const remat::StageGraph& stages,
                                                            const certify::Certificate& fixed_order,
                                                            double work, const Control& control);

}  // namespace lowtide::bounds
