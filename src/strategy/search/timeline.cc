#include "strategy/search/timeline.h"

#include <algorithm>

namespace lowtide {

Timeline::Timeline(int stages, Bytes limit)
    : bytes_(stages), limit_(limit), blocks_((stages + kBlock - 1) / kBlock) {
  set_limit(limit);
}

void Timeline::set_limit(Bytes limit) {
  limit_ = limit;
  for (int b = 0; b < static_cast<int>(blocks_.size()); ++b) mark_stale(b);
}

int Timeline::block_end(int block) const {
  return std::min(static_cast<int>(bytes_.size()), (block + 1) * kBlock);
}

void Timeline::mark_stale(int block) {
  if (blocks_[block].stale) return;
  blocks_[block].stale = true;
  stale_.push_back(block);
}

void Timeline::add(int begin, int end, Bytes bytes) {
  if (begin >= end) return;
  const int first = begin / kBlock;
  const int last = (end - 1) / kBlock;
  if (first == last) return add_inside(first, begin, end, bytes);
  add_inside(first, begin, (first + 1) * kBlock, bytes);
  for (int b = first + 1; b < last; ++b) {
    Block& block = blocks_[b];
    block.pending += bytes;
    block.top += bytes;
    if (block.over > 0 || block.top > limit_) mark_stale(b);
  }
  add_inside(last, last * kBlock, end, bytes);
}

void Timeline::add_inside(int block, int begin, int end, Bytes bytes) {
  for (int i = begin; i < end; ++i) bytes_[i] += bytes;
  mark_stale(block);
}

void Timeline::refresh(int b) const {
  Block& block = blocks_[b];
  const Bytes room = limit_ - block.pending;
  const Bytes* bytes = bytes_.data();
  const int end = block_end(b);
  Bytes top = bytes[b * kBlock];
  for (int i = b * kBlock; i < end; ++i) top = std::max(top, bytes[i]);
  Bytes excess = 0;
  int over = 0;
  for (int i = b * kBlock; top > room && i < end; ++i) {
    excess += std::max<Bytes>(0, bytes[i] - room);
    over += bytes[i] > room;
  }
  excess_ += excess - block.excess;
  over_ += over - block.over;
  block = {block.pending, top + block.pending, excess, over, false};
}

void Timeline::refresh() const {
  for (int block : stale_) refresh(block);
  stale_.clear();
}

Bytes Timeline::at(int stage) const { return bytes_[stage] + blocks_[stage / kBlock].pending; }

Bytes Timeline::excess() const {
  refresh();
  return excess_;
}

int Timeline::stages_over() const {
  refresh();
  return over_;
}

Bytes Timeline::peak() const {
  refresh();
  return std::ranges::max_element(blocks_, {}, &Block::top)->top;
}

int Timeline::over_after(int from) const {
  if (stages_over() == 0) return -1;
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
