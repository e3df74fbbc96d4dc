#include <vector>

#include "packing/allocators/pool.h"

// One line per pool, in the order of reports.
#define LOWTIDE_POOLS(USE) \
  USE(best_fit)            \
  USE(first_fit)           \
  USE(next_fit)            \
  USE(buddy)               \
  USE(caching)             \
  USE(doubling_regions)    \
  USE(size_classes)        \
  USE(powers_of_two)       \
  USE(exact_sizes)         \
  USE(colors)

namespace lowtide::packing::allocators {

#define LOWTIDE_DECLARE(name) PoolStrategy name##_pool();
LOWTIDE_POOLS(LOWTIDE_DECLARE)
#undef LOWTIDE_DECLARE

std::span<const PoolStrategy> pool_strategies() {
#define LOWTIDE_CALL(name) name##_pool(),
  static const std::vector<PoolStrategy> all{LOWTIDE_POOLS(LOWTIDE_CALL)};
#undef LOWTIDE_CALL
  return all;
}

}  // namespace lowtide::packing::allocators
