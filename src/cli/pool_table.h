#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "packing/allocators/pool.h"
#include "packing/solve.h"

namespace lowtide::cli {

/// The memory of a step's buffers in every pool, and in the layout that was solved for them.
struct PoolComparison {
  /// The height of every pool and its most bytes in blocks, in the order of pool_strategies().
  struct Row {
    const packing::allocators::PoolStrategy* pool = nullptr;
    Bytes height = 0;
    Bytes block_bytes = 0;
  };
  Bytes live_bytes = 0;   ///< most bytes alive at one time
  Bytes lower_bound = 0;  ///< of any layout
  Bytes height = 0;       ///< of the layout
  std::vector<Row> rows;
};

/// `held`: bytes of memory held throughout, which pools get as first requests and which the layout
/// does not contain; may be empty.
PoolComparison compare_pools(const std::vector<packing::Buffer>& buffers,
                             const packing::SolvedPacking& solved, const std::vector<Bytes>& held,
                             Bytes alignment);

std::string text(const PoolComparison& comparison);
nlohmann::json to_json(const PoolComparison& comparison);

}  // namespace lowtide::cli
