#include "slower/blocks.h"

#include <algorithm>

#include "slower/aligned_memory.h"

namespace lowtide::slower {

Range Blocks::aligned(Range range) const {
  return {align_down(range.begin, alignment_), align_up(range.end, alignment_)};
}

BlockList Blocks::replace(Range range) {
  forget(range);
  const Range whole = aligned(range);
  BlockList list;
  for (Bytes begin = range.begin; begin < range.end;) {
    const Bytes end = std::min(align_down(begin, alignment_) + largest_, range.end);
    list.push_back(std::make_shared<Block>(Block{.range = {begin, end}}));
    begin = end;
  }
  if (!list.empty()) {
    list.front()->shares_front = !is_free({whole.begin, range.begin});
    list.back()->shares_back = !is_free({range.end, whole.end});
  }
  for (const std::shared_ptr<Block>& block : list) blocks_.emplace(block->range.end, block);
  return list;
}

BlockList Blocks::covering(Range range) const {
  BlockList list;
  Bytes covered = range.begin;
  for (auto at = blocks_.upper_bound(range.begin); covered < range.end; ++at) {
    if (at == blocks_.end() || at->second->range.begin > covered) return {};
    list.push_back(at->second);
    covered = at->first;
  }
  return list;
}

void Blocks::forget(Range range) {
  auto at = blocks_.upper_bound(range.begin);
  while (at != blocks_.end() && at->second->range.overlaps(range)) at = blocks_.erase(at);
}

bool Blocks::is_free(Range range) const {
  const auto at = blocks_.upper_bound(range.begin);
  return at == blocks_.end() || !at->second->range.overlaps(range);
}

}  // namespace lowtide::slower
