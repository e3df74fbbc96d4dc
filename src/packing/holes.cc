#include "packing/holes.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>

namespace lowtide::packing {
namespace {

/// A class holds the sizes from one power of two to below the next.
std::size_t class_of(Bytes bytes) {
  return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(bytes)));
}

}  // namespace

Bytes Holes::take(Bytes bytes, Fit fit) {
  const auto hole = find(bytes, fit);
  Bytes offset = 0;
  if (hole == by_offset_.end()) {
    offset = grow(bytes);
  } else {
    offset = hole->first;
    const Bytes size = hole->second;
    erase(hole);
    if (size > bytes) insert(offset + bytes, size - bytes);
  }
  taken_last_ = offset + bytes;
  return offset;
}

void Holes::give(Bytes offset, Bytes bytes) {
  const auto next = by_offset_.lower_bound(offset);
  if (next != by_offset_.end() && next->first == offset + bytes) {
    bytes += next->second;
    erase(next);
  }
  const auto after = by_offset_.lower_bound(offset);
  if (after != by_offset_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      erase(before);
    }
  }
  insert(offset, bytes);
}

Bytes Holes::end() const {
  if (by_offset_.empty()) return top_;
  const auto& [offset, size] = *by_offset_.rbegin();
  return offset + size == top_ ? offset : top_;
}

Bytes Holes::largest() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }

Holes::ByOffset::iterator Holes::find(Bytes bytes, Fit fit) {
  switch (fit) {
    case Fit::first: return first(bytes);
    case Fit::best: return best(bytes);
    case Fit::next: break;
  }
  return next(bytes);
}

Holes::ByOffset::iterator Holes::best(Bytes bytes) {
  const auto found = by_size_.lower_bound({bytes, 0});
  return found == by_size_.end() ? by_offset_.end() : by_offset_.find(found->second);
}

/// All holes of a larger class are large enough, so only the lowest of each is a candidate. In its
/// own class, the candidate is the lowest that is large enough.
Holes::ByOffset::iterator Holes::first(Bytes bytes) {
  const std::size_t own = class_of(bytes);
  Bytes lowest = std::numeric_limits<Bytes>::max();
  for (std::size_t c = own + 1; c < by_class_.size(); ++c) {
    if (!by_class_[c].empty()) lowest = std::min(lowest, by_class_[c].begin()->first);
  }
  for (const auto& [offset, size] : by_class_[own]) {
    if (offset >= lowest) break;
    if (size >= bytes) lowest = offset;
  }
  return by_offset_.find(lowest);
}

Holes::ByOffset::iterator Holes::next(Bytes bytes) {
  const auto fits = [bytes](const auto& hole) { return hole.second >= bytes; };
  const auto start = by_offset_.lower_bound(taken_last_);
  const auto behind = std::find_if(start, by_offset_.end(), fits);
  if (behind != by_offset_.end()) return behind;
  const auto before = std::find_if(by_offset_.begin(), start, fits);
  return before == start ? by_offset_.end() : before;
}

Bytes Holes::grow(Bytes bytes) {
  Bytes offset = top_;
  if (!by_offset_.empty()) {
    const auto last = std::prev(by_offset_.end());
    if (last->first + last->second == top_) {
      offset = last->first;
      erase(last);
    }
  }
  top_ = offset + bytes;
  return offset;
}

void Holes::insert(Bytes offset, Bytes bytes) {
  by_offset_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
  by_class_[class_of(bytes)].emplace(offset, bytes);
}

void Holes::erase(ByOffset::iterator hole) {
  by_size_.erase({hole->second, hole->first});
  by_class_[class_of(hole->second)].erase(hole->first);
  by_offset_.erase(hole);
}

}  // namespace lowtide::packing
