#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace lowtide::remat {

/// Bytes in use per stage, under changes of whole ranges of stages, and the bytes above a
/// limit. Blocks of 64 stages, and groups of 64 blocks, store pending changes, so a change of
/// r stages takes O(r / 4096 + 256). Sums are updated, group by group, when they are asked
/// for.
class Timeline {
 public:
  Timeline(int stages, Bytes limit);

  /// Adds `bytes` to each of the stages [begin, end).
  void add(int begin, int end, Bytes bytes);
  Bytes at(int stage) const;
  Bytes peak() const;
  /// Sum over the stages of the bytes above the limit.
  Bytes excess() const;
  /// Number of stages above the limit.
  int stages_over() const;
  Bytes limit() const { return limit_; }
  void set_limit(Bytes limit);
  /// The first stage above the limit from `from` on, wrapping around; -1 when there is none.
  int over_after(int from) const;
  /// Number of stages and parts visited so far.
  std::int64_t work() const { return work_; }

 private:
  static constexpr int kBlock = 64;           // stages
  static constexpr int kGroup = 64 * kBlock;  // stages
  /// Of a block or of a group.
  struct Part {
    Bytes pending = 0;
    Bytes top = 0;  ///< includes own pending bytes, but not those of the block's group
    Bytes excess = 0;
    int over = 0;
    bool stale = false;
  };

  void add_in_group(int group, int begin, int end, Bytes bytes);
  void add_in_block(int group, int block, int begin, int end, Bytes bytes);
  /// Whether a change of pending bytes may change sums; `below` is pending for its group.
  bool matters(const Part& part, Bytes below) const {
    return part.over > 0 || part.top + below > limit_;
  }
  void mark_stale(int group) const;
  void refresh_block(int block, Bytes below) const;
  void refresh_group(int group) const;
  void refresh() const;
  int num_stages() const { return static_cast<int>(bytes_.size()); }
  int first_over(int begin, int end) const;

  std::vector<Bytes> bytes_;
  Bytes limit_;
  mutable std::vector<Part> blocks_;
  mutable std::vector<Part> groups_;
  mutable std::vector<int> stale_groups_;
  mutable Bytes excess_ = 0;
  mutable int over_ = 0;
  mutable std::int64_t work_ = 0;
};

}  // namespace lowtide::remat
