#pragma once

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "runtime/allocation.h"

namespace lowtide {

/// Best fit with coalescing over offsets 0, 1, 2, ...: gives the smallest hole that is large
/// enough, the lowest one among equals, and grows at the top when there is none. Sizes are rounded
/// up to 64.
class BestFit {
 public:
  Bytes allocate(Bytes bytes);
  void release(Bytes offset);

  Bytes top() const { return top_; }          ///< end of the highest block in use
  Bytes peak() const { return peak_; }        ///< highest top so far
  Bytes live_bytes() const { return live_; }  ///< in use, rounding included
  std::size_t live_blocks() const { return used_.size(); }
  void reset_peak() { peak_ = top_; }

 private:
  void add_hole(Bytes offset, Bytes bytes);
  void drop_hole(std::map<Bytes, Bytes>::iterator hole);

  std::map<Bytes, Bytes> used_;   ///< bytes by offset
  std::map<Bytes, Bytes> holes_;  ///< bytes by offset; never adjacent, none at the top
  std::set<std::pair<Bytes, Bytes>> by_size_;  ///< (bytes, offset) of each hole
  Bytes top_ = 0;
  Bytes peak_ = 0;
  Bytes live_ = 0;
};

/// What a framework does: allocates when asked and recycles what is released, in one region that
/// grows. The region stays until the last tensor in it is gone, even after the Pool.
class Pool final : public MemorySource {
 public:
  /// `capacity` bounds the region; only what is used takes memory.
  explicit Pool(Bytes capacity);
  ~Pool() override;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Throws Error when the capacity is used up.
  Grant allocate(std::size_t bytes) override;

  Bytes live_bytes() const;
  Bytes peak_bytes() const;  ///< of the region, holes included
  void reset_peak();
  std::int64_t count() const;

 private:
  struct Region;
  static void release(void* data);

  Region* region_;  ///< deletes itself when it is neither owned nor used
};

}  // namespace lowtide
