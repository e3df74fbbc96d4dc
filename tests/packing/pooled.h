#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "packing/allocators/pool.h"

namespace lowtide::testing {

/// The result of the pool of that name for a step.
inline packing::allocators::Pooled pooled(std::string_view name,
                                          const std::vector<packing::Buffer>& buffers,
                                          Bytes unit = 1) {
  const auto found = std::ranges::find(packing::allocators::pool_strategies(), name,
                                       &packing::allocators::PoolStrategy::name);
  EXPECT_NE(found, packing::allocators::pool_strategies().end()) << name;
  return found->serve(buffers, unit);
}

/// All of a step, then one more request.
inline std::vector<packing::Buffer> then_ask(std::vector<packing::Buffer> buffers, Bytes bytes) {
  std::int32_t end = 0;
  for (const packing::Buffer& buffer : buffers) end = std::max(end, buffer.end);
  buffers.push_back({end, end + 1, bytes});
  return buffers;
}

}  // namespace lowtide::testing
