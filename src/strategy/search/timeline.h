#pragma once

#include <vector>

#include "base/bytes.h"

namespace lowtide {

/// Bytes in use per stage, under changes of whole ranges of stages, and by how much they exceed a
/// limit. Blocks of stages carry pending changes, so a change of r stages takes O(r / 64 + 128);
/// sums are brought up to date, block by block, when they are asked for.
class Timeline {
 public:
  Timeline(int stages, Bytes limit);

  /// Adds to the stages [begin, end).
  void add(int begin, int end, Bytes bytes);
  Bytes at(int stage) const;
  Bytes peak() const;
  /// Sum over the stages of what is above the limit.
  Bytes excess() const;
  /// Number of stages above the limit.
  int stages_over() const;
  Bytes limit() const { return limit_; }
  void set_limit(Bytes limit);
  /// The first stage above the limit from `from` on, going around; -1 when there is none.
  int over_after(int from) const;

 private:
  static constexpr int kBlock = 64;
  struct Block {
    Bytes pending = 0;
    Bytes top = 0;  ///< pending included
    Bytes excess = 0;
    int over = 0;
    bool stale = false;
  };

  void add_inside(int block, int begin, int end, Bytes bytes);
  int block_end(int block) const;
  void mark_stale(int block);
  void refresh(int block) const;
  void refresh() const;

  std::vector<Bytes> bytes_;
  Bytes limit_;
  mutable std::vector<Block> blocks_;
  mutable std::vector<int> stale_;
  mutable Bytes excess_ = 0;
  mutable int over_ = 0;
};

}  // namespace lowtide
