#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "packing/allocators/pool.h"

namespace lowtide::testing {

/// What the pool of that name makes of a step.
inline Pooled pooled(std::string_view name, const std::vector<Buffer>& buffers, Bytes unit = 1) {
  const auto found = std::ranges::find(pool_strategies(), name, &PoolStrategy::name);
  EXPECT_NE(found, pool_strategies().end()) << name;
  return found->serve(buffers, unit);
}

/// All of a step, then one more request.
inline std::vector<Buffer> then_ask(std::vector<Buffer> buffers, Bytes bytes) {
  std::int32_t end = 0;
  for (const Buffer& buffer : buffers) end = std::max(end, buffer.end);
  buffers.push_back({end, end + 1, bytes});
  return buffers;
}

}  // namespace lowtide::testing
