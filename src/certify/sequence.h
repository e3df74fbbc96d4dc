#pragma once

#include "certify/stages.h"
#include "plan/plan.h"

namespace lowtide::certify {

/// The cost and memory of a plan's actions.
struct SequenceTotals {
  double cost = 0;
  Bytes peak_bytes = 0;
  bool keeps_order = true;  ///< first runs come in the order of the graph
};

/// Follows a plan action by action, by the rules of docs/reference/plan-format.md. Throws Refused
/// (bad_plan) at the first action that breaks one.
SequenceTotals follow(const Graph& graph, const Stages& stages, const Plan& plan);

}  // namespace lowtide::certify
