#include "strategy/search/timeline.h"

#include <algorithm>

namespace lowtide {

Timeline::Timeline(int stages, Bytes limit)
    : bytes_(stages), blocks_((stages + kBlock - 1) / kBlock), limit_(limit) {
  set_limit(limit);
}

void Timeline::set_limit(Bytes limit) {
  limit_ = limit;
  for (int b = 0; b < static_cast<int>(blocks_.size()); ++b) refresh(b);
}

int Timeline::block_end(int block) const {
  return std::min(static_cast<int>(bytes_.size()), (block + 1) * kBlock);
}

void Timeline::add(int begin, int end, Bytes bytes) {
  while (begin < end) {
    const int b = begin / kBlock;
    const int stop = std::min(end, block_end(b));
    Block& block = blocks_[b];
    if (begin == b * kBlock && stop == block_end(b)) {
      block.pending += bytes;
      block.top += bytes;
      if (block.over > 0 || block.top > limit_) refresh(b);
    } else {
      for (int i = begin; i < stop; ++i) bytes_[i] += bytes;
      refresh(b);
    }
    begin = stop;
  }
}

void Timeline::refresh(int b) {
  Block& block = blocks_[b];
  const Bytes room = limit_ - block.pending;
  Bytes top = bytes_[b * kBlock];
  Bytes excess = 0;
  int over = 0;
  for (int i = b * kBlock; i < block_end(b); ++i) {
    top = std::max(top, bytes_[i]);
    excess += std::max<Bytes>(0, bytes_[i] - room);
    over += bytes_[i] > room;
  }
  excess_ += excess - block.excess;
  over_ += over - block.over;
  block.top = top + block.pending;
  block.excess = excess;
  block.over = over;
}

Bytes Timeline::at(int stage) const { return bytes_[stage] + blocks_[stage / kBlock].pending; }

Bytes Timeline::peak() const {
  return std::ranges::max_element(blocks_, {}, &Block::top)->top;
}

int Timeline::over_after(int from) const {
  if (over_ == 0) return -1;
  const auto search = [&](int begin, int end) {
    while (begin < end) {
      const int b = begin / kBlock;
      const int stop = std::min(end, block_end(b));
      if (blocks_[b].over > 0) {
        for (int i = begin; i < stop; ++i) {
          if (at(i) > limit_) return i;
        }
      }
      begin = stop;
    }
    return -1;
  };
  const int found = search(from, static_cast<int>(bytes_.size()));
  return found >= 0 ? found : search(0, from);
}

}  // namespace lowtide
