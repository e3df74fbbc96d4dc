#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "plan/plan.h"

namespace lowtide {

/// The used bytes of a range of addresses.
class TakenBytes {
 public:
  struct Span {
    Placement what;
    Bytes end;
  };

  Bytes top() const { return top_; }

  /// Takes the bytes if all are free and returns nothing; else returns the span that overlaps.
  std::optional<Span> take(const Placement& what, Bytes bytes) {
    const Bytes end = what.offset + bytes;
    const auto next = taken_.lower_bound(what.offset);
    if (next != taken_.end() && next->first < end) return next->second;
    if (next != taken_.begin() && std::prev(next)->second.end > what.offset) {
      return std::prev(next)->second;
    }
    taken_.emplace(what.offset, Span{what, end});
    top_ = std::max(top_, end);
    return std::nullopt;
  }

  void give(Bytes begin) { taken_.erase(begin); }

 private:
  std::map<Bytes, Span> taken_;  // by where it begins
  Bytes top_ = 0;
};

}  // namespace lowtide
