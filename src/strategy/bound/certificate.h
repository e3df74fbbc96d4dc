#pragma once

#include <memory>

#include "certify/certificate.h"
#include "strategy/bound/price_bound.h"

namespace lowtide {

/// The proof of PriceBound::value(): its prices and clusters, in terms of the graph alone.
Certificate certificate_of(const Graph& graph, const StageGraph& stages, const PriceBound& bound,
                           Bytes budget);
std::shared_ptr<const Certificate> shared_certificate(const Graph& graph,
                                                      const StageGraph& stages,
                                                      const PriceBound& bound, Bytes budget);

}  // namespace lowtide
