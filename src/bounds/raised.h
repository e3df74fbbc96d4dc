#pragma once

#include <memory>

#include "base/control.h"
#include "certify/certificate.h"
#include "graph/graph.h"

namespace lowtide::bounds {

/// Goes on from the prices of a certificate about plans in the graph's order, and returns one whose
/// bound is higher; null when `control` or the gain ends it before there is one.
std::shared_ptr<const certify::Certificate> raised(const Graph& graph,
                                                   const certify::Certificate& certificate,
                                                   const Control& control);

}  // namespace lowtide::bounds
