#include "remat/timeline.h"

#include <algorithm>
#include <limits>

namespace lowtide::remat {

Timeline::Timeline(int stages, Bytes limit)
    : bytes_(stages),
      limit_(limit),
      blocks_((stages + kBlock - 1) / kBlock),
      groups_((stages + kGroup - 1) / kGroup) {
  set_limit(limit);
}

void Timeline::set_limit(Bytes limit) {
  limit_ = limit;
  for (Part& block : blocks_) block.stale = true;
  for (int g = 0; g < static_cast<int>(groups_.size()); ++g) mark_stale(g);
}

void Timeline::mark_stale(int group) const {
  if (groups_[group].stale) return;
  groups_[group].stale = true;
  stale_groups_.push_back(group);
}

void Timeline::add(int begin, int end, Bytes bytes) {
  if (begin >= end) return;
  const int first = begin / kGroup;
  const int last = (end - 1) / kGroup;
  work_ += last - first;
  if (first == last) return add_in_group(first, begin, end, bytes);
  add_in_group(first, begin, (first + 1) * kGroup, bytes);
  for (int g = first + 1; g < last; ++g) {
    Part& group = groups_[g];
    group.pending += bytes;
    group.top += bytes;
    if (matters(group, 0)) mark_stale(g);
  }
  add_in_group(last, last * kGroup, end, bytes);
}

void Timeline::add_in_group(int g, int begin, int end, Bytes bytes) {
  const int first = begin / kBlock;
  const int last = (end - 1) / kBlock;
  work_ += last - first;
  if (first == last) return add_in_block(g, first, begin, end, bytes);
  add_in_block(g, first, begin, (first + 1) * kBlock, bytes);
  const Bytes below = groups_[g].pending;
  for (int b = first + 1; b < last; ++b) {
    Part& block = blocks_[b];
    block.pending += bytes;
    block.top += bytes;
    block.stale = block.stale || matters(block, below);
  }
  add_in_block(g, last, last * kBlock, end, bytes);
}

void Timeline::add_in_block(int group, int block, int begin, int end, Bytes bytes) {
  work_ += end - begin;
  for (int i = begin; i < end; ++i) bytes_[i] += bytes;
  blocks_[block].stale = true;
  mark_stale(group);
}

void Timeline::refresh_block(int b, Bytes below) const {
  Part& block = blocks_[b];
  const Bytes room = limit_ - block.pending - below;
  const Bytes* bytes = bytes_.data();
  const int end = std::min(num_stages(), (b + 1) * kBlock);
  work_ += end - b * kBlock;
  Bytes top = bytes[b * kBlock];
  for (int i = b * kBlock; i < end; ++i) top = std::max(top, bytes[i]);
  Bytes excess = 0;
  int over = 0;
  for (int i = b * kBlock; top > room && i < end; ++i) {
    excess += std::max<Bytes>(0, bytes[i] - room);
    over += bytes[i] > room;
  }
  block = {block.pending, top + block.pending, excess, over, false};
}

void Timeline::refresh_group(int g) const {
  Part& group = groups_[g];
  const int begin = g * kGroup / kBlock;
  const int end = std::min(static_cast<int>(blocks_.size()), begin + kGroup / kBlock);
  work_ += end - begin;
  Part sum{.pending = group.pending, .top = std::numeric_limits<Bytes>::min()};
  for (int b = begin; b < end; ++b) {
    const Part& block = blocks_[b];
    if (block.stale || matters(block, group.pending)) refresh_block(b, group.pending);
    sum.top = std::max(sum.top, block.top);
    sum.excess += block.excess;
    sum.over += block.over;
  }
  sum.top += sum.pending;
  excess_ += sum.excess - group.excess;
  over_ += sum.over - group.over;
  group = sum;
}

void Timeline::refresh() const {
  for (int group : stale_groups_) refresh_group(group);
  stale_groups_.clear();
}

Bytes Timeline::at(int stage) const {
  return bytes_[stage] + blocks_[stage / kBlock].pending + groups_[stage / kGroup].pending;
}

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
  return std::ranges::max_element(groups_, {}, &Part::top)->top;
}

int Timeline::first_over(int begin, int end) const {
  while (begin < end) {
    int length = 1;
    if (groups_[begin / kGroup].over == 0) {
      length = kGroup - begin % kGroup;
    } else if (blocks_[begin / kBlock].over == 0) {
      length = kBlock - begin % kBlock;
    } else if (at(begin) > limit_) {
      return begin;
    }
    begin += length;
  }
  return -1;
}

int Timeline::over_after(int from) const {
  if (stages_over() == 0) return -1;
  const int found = first_over(from, num_stages());
  return found >= 0 ? found : first_over(0, from);
}

}  // namespace lowtide::remat
