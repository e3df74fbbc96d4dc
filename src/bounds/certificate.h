#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bounds/moment_bound.h"
#include "bounds/price_bound.h"
#include "certify/certificate.h"

namespace lowtide::bounds {

/// The prices and clusters that prove PriceBound::value(), in terms of the graph alone.
certify::Certificate::Proof proof_of(const Graph& graph, const remat::StageGraph& stages,
                                     const PriceBound& bound);
certify::Certificate certificate_of(const Graph& graph, const remat::StageGraph& stages,
                                    const PriceBound& bound, Bytes budget);
std::shared_ptr<const certify::Certificate> shared_certificate(const Graph& graph,
                                                               const remat::StageGraph& stages,
                                                               const PriceBound& bound,
                                                               Bytes budget);

/// One price, and one cluster of all values.
std::shared_ptr<const certify::Certificate> shared_certificate(const Graph& graph,
                                                               const remat::StageGraph& stages,
                                                               const MomentBound& bound,
                                                               Bytes budget);

/// Per op, and then for the end: the price of a byte while it first runs.
std::vector<double> op_prices(const certify::Certificate& certificate);
/// The same per stage.
std::vector<double> stage_prices(const remat::StageGraph& stages,
                                 std::span<const double> op_prices);

}  // namespace lowtide::bounds
