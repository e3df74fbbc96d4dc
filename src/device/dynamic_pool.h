#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/error.h"
#include "device/allocation.h"
#include "device/device.h"
#include "packing/holes.h"

namespace lowtide::device {

/// Best-fit allocation of offsets from 0 on; keeps the sizes of blocks and the peak. Rounds sizes
/// up to multiples of 64.
class BestFit {
 public:
  Bytes allocate(Bytes bytes);
  void release(Bytes offset);

  Bytes top() const { return holes_.end(); }  ///< end of the highest block in use
  Bytes peak() const { return peak_; }        ///< highest top so far
  Bytes live_bytes() const { return live_; }  ///< in use, rounding included
  std::size_t live_blocks() const { return used_.size(); }
  void reset_peak() { peak_ = top(); }

 private:
  packing::Holes holes_;
  std::unordered_map<Bytes, Bytes> used_;  ///< bytes by offset
  Bytes peak_ = 0;
  Bytes live_ = 0;
};

/// A request does not fit into what a DynamicPool may take. what() names both numbers.
class PoolFull : public InfeasibleError {
 public:
  using InfeasibleError::InfeasibleError;
};

/// Allocates as a framework does: on request, with reuse of released memory, in one growing region.
/// The region stays until the last tensor in it is gone, even after the DynamicPool.
class DynamicPool final : public MemorySource {
 public:
  /// `capacity` limits the region. On the host only used parts need memory; other devices give all
  /// of it at once.
  DynamicPool(const ComputeDevice& device, Bytes capacity);
  ~DynamicPool() override;
  DynamicPool(const DynamicPool&) = delete;
  DynamicPool& operator=(const DynamicPool&) = delete;

  /// Throws PoolFull instead of a region larger than the capacity.
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

}  // namespace lowtide::device
