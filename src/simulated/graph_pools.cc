#include "simulated/graph_pools.h"

#include <algorithm>

#include "simulated/state.h"

namespace lowtide::simulated {

GraphPools& GraphPools::instance() {
  static GraphPools* const pools = new GraphPools;  // outlives every tensor of the program
  return *pools;
}

c10::MempoolId_t GraphPools::hold(c10::MempoolId_t id) {
  const std::scoped_lock lock(mutex_);
  if (id == c10::MempoolId_t{0, 0}) id = {++last_, 0};
  ++pools_[id].graphs;
  return id;
}

void GraphPools::drop(c10::MempoolId_t id) {
  state().streams.finish_all();  // replays may still be under way
  const std::scoped_lock lock(mutex_);
  Pool& pool = pools_.at(id);
  if (--pool.graphs > 0) return;
  give_back_untaken(pool);
  if (pool.blocks.empty()) pools_.erase(id);
}

device::MemorySource::Grant GraphPools::allocate(c10::MempoolId_t id, Bytes bytes,
                                                 StreamId stream) {
  const std::scoped_lock lock(mutex_);
  Pool& pool = pools_.at(id);
  auto best = pool.blocks.end();
  for (auto block = pool.blocks.begin(); block != pool.blocks.end(); ++block) {
    const bool fits = !block->second.taken && block->second.bytes >= bytes;
    if (fits && (best == pool.blocks.end() || block->second.bytes < best->second.bytes)) {
      best = block;
    }
  }
  if (best == pool.blocks.end()) {
    best = pool.blocks.emplace(state().memory.allocate_kept(bytes, stream), Block{bytes}).first;
  }
  best->second.taken = true;
  return {best->first, &GraphPools::release};
}

void GraphPools::release(void* data) {
  state().memory.counters().unserved.remove(data);
  GraphPools& self = instance();
  const std::scoped_lock lock(self.mutex_);
  const auto owner = std::ranges::find_if(
      self.pools_, [&](const auto& pool) { return pool.second.blocks.contains(data); });
  if (owner == self.pools_.end()) return;
  Pool& pool = owner->second;
  pool.blocks.at(data).taken = false;
  if (pool.graphs > 0) return;
  give_back_untaken(pool);
  if (pool.blocks.empty()) self.pools_.erase(owner);
}

void GraphPools::give_back_untaken(Pool& pool) {
  std::erase_if(pool.blocks, [](const auto& block) {
    if (!block.second.taken) state().memory.release_kept(block.first);
    return !block.second.taken;
  });
}

}  // namespace lowtide::simulated
