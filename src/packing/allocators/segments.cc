#include "packing/allocators/segments.h"

#include <iterator>

namespace lowtide::packing::allocators {

Block Segments::take(const Need& need) {
  auto piece = find(need);
  if (piece == pieces_.end()) piece = grow(need);
  free_.erase(key(*piece));
  piece->second.is_free = false;
  const Bytes rest = piece->second.bytes - need.bytes;
  if (rest > 0 && rest >= need.least_rest) {
    Piece tail = piece->second;
    tail.bytes = rest;
    tail.is_free = true;
    piece->second.bytes = need.bytes;
    free_.insert(key(*pieces_.emplace(piece->first + need.bytes, tail).first));
  }
  return {piece->first, piece->second.bytes};
}

void Segments::give(Block block) {
  auto piece = pieces_.find(block.offset);
  piece->second.is_free = true;
  free_.insert(key(*piece));
  if (piece != pieces_.begin()) piece = merge(std::prev(piece), piece);
  if (std::next(piece) != pieces_.end()) merge(piece, std::next(piece));
}

Segments::Pieces::iterator Segments::find(const Need& need) {
  const auto found = free_.lower_bound({need.purpose, need.bytes, 0});
  const bool serves = found != free_.end() && found->purpose == need.purpose;
  return serves ? pieces_.find(found->offset) : pieces_.end();
}

Segments::Pieces::iterator Segments::grow(const Need& need) {
  const Piece piece{need.new_segment, segments_++, need.purpose, true};
  const auto added = pieces_.emplace(top_, piece).first;
  free_.insert(key(*added));
  top_ += need.new_segment;
  return added;
}

Segments::Pieces::iterator Segments::merge(Pieces::iterator left, Pieces::iterator right) {
  const bool apart = left->second.segment != right->second.segment;
  if (apart || !left->second.is_free || !right->second.is_free) return right;
  free_.erase(key(*left));
  free_.erase(key(*right));
  left->second.bytes += right->second.bytes;
  pieces_.erase(right);
  free_.insert(key(*left));
  return left;
}

}  // namespace lowtide::packing::allocators
