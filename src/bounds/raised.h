#pragma once

#include <memory>

#include "base/control.h"
#include "certify/certificate.h"
#include "graph/graph.h"

namespace lowtide::bounds {

/// Continues from the prices of a certificate for the graph's order. Returns a certificate with a
/// higher bound; null when `control` or too little gain ends the work first.
std::shared_ptr<const certify::Certificate> raised(const Graph& graph,
                                                   const certify::Certificate& certificate,
                                                   const Control& control);

}  // namespace lowtide::bounds
