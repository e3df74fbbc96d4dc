#pragma once

#include "plan/plan.h"

namespace lowtide::testing {

/// The memory of a valid plan by the plainest count: which storages are there during each action,
/// and every pair of ranges of addresses. It shares no code with replay and verifier.
struct PlanMemory {
  Bytes peak_bytes = 0;
  Bytes arena_bytes = 0;  ///< the highest end of an address, after the residents that stay
  bool overlaps = false;  ///< whether two ranges that are there together share bytes
  bool has_all_addresses = true;
};
PlanMemory memory_of(const Graph& graph, const Plan& plan);

}  // namespace lowtide::testing
