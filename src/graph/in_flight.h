#pragma once

#include "graph/graph.h"

namespace lowtide {

/// Whether the op waits for what an earlier op has begun and what goes on beside ops, such as a
/// collective of several ranks: "lowtide::gather_wait". Until the op has run, other hardware reads
/// or writes what it reads.
inline bool is_wait(const Op& op) {
  return op.type.starts_with("lowtide::") && op.type.ends_with("_wait");
}

}  // namespace lowtide
