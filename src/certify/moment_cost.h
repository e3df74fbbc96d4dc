#pragma once

#include "certify/certificate.h"
#include "certify/stages.h"

namespace lowtide::certify {

/// The least cost of a cluster of any size where memory has a price during the first run of one
/// stage only: of what runs again after it, and of the bytes held over it. Rounded down.
///
/// A value that is read later is held over the stage, or one of its reruns comes later, whose
/// inputs are held over the stage or made again in turn. The least sum is a minimum cut, since any
/// such choice is a cut; and any flow is a lower bound on it. To hold one value costs at most as
/// much as all ops, which only lowers the result.
///
/// Precondition: the cluster passed the checks of check.cc.
double moment_cost(const Graph& graph, const Stages& stages, const Certificate::Cluster& cluster,
                   int stage, double price);

}  // namespace lowtide::certify
