#include "device/dynamic_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "device/block.h"
#include "packing/packing.h"

namespace lowtide::device {

Bytes BestFit::allocate(Bytes bytes) {
  bytes = align_up(bytes, packing::kArenaAlignment);
  const Bytes offset = holes_.take(bytes, packing::Fit::best);
  used_[offset] = bytes;
  live_ += bytes;
  peak_ = std::max(peak_, top());
  return offset;
}

void BestFit::release(Bytes offset) {
  const auto block = used_.find(offset);
  holes_.give(offset, block->second);
  live_ -= block->second;
  used_.erase(block);
}

struct DynamicPool::Region {
  explicit Region(Bytes most)
      : capacity(most),
        block(most, Block::Access::none),
        range(block.data(), block.bytes(), &DynamicPool::release) {}

  const Bytes capacity;  ///< the block is of whole pages
  Block block;
  OwnedRange range;
  std::mutex mutex;
  BestFit fit;
  std::int64_t count = 0;
  bool owned = true;
};

namespace {

/// All regions by begin, so that a release finds the region of an address.
template <typename Region>
struct Regions {
  std::mutex mutex;
  std::map<const std::byte*, Region*> by_begin;

  static Regions& instance() {
    static Regions* const regions = new Regions;  // outlives every tensor of the program
    return *regions;
  }
  void add(const std::byte* begin, Region* region) {
    const std::scoped_lock lock(mutex);
    by_begin[begin] = region;
  }
  void remove(const std::byte* begin) {
    const std::scoped_lock lock(mutex);
    by_begin.erase(begin);
  }
  Region* find(const void* data) {
    const std::scoped_lock lock(mutex);
    return std::prev(by_begin.upper_bound(static_cast<const std::byte*>(data)))->second;
  }
};

/// Deletes the region when neither a pool nor a tensor needs it.
template <typename Region>
void end_if_unused(Region* region, std::unique_lock<std::mutex> lock) {
  if (region->owned || region->fit.live_blocks() > 0) return;
  lock.unlock();
  Regions<Region>::instance().remove(region->block.data());
  delete region;
}

}  // namespace

DynamicPool::DynamicPool(Bytes capacity) : region_(new Region(capacity)) {
  Regions<Region>::instance().add(region_->block.data(), region_);
}

DynamicPool::~DynamicPool() {
  std::unique_lock lock(region_->mutex);
  region_->owned = false;
  end_if_unused(region_, std::move(lock));
}

MemorySource::Grant DynamicPool::allocate(std::size_t bytes) {
  const std::scoped_lock lock(region_->mutex);
  const Bytes offset = region_->fit.allocate(static_cast<Bytes>(bytes));
  if (const Bytes needed = region_->fit.top(); needed > region_->capacity) {
    region_->fit.release(offset);
    throw PoolFull(fmt::format(
        "the memory pool needs {} ({} bytes) for a request of {} bytes, and may take {} ({} bytes)",
        format_bytes(needed), needed, bytes, format_bytes(region_->capacity), region_->capacity));
  }
  region_->block.open_to(region_->fit.top());
  ++region_->count;
  return {region_->block.data() + offset, &DynamicPool::release};
}

void DynamicPool::release(void* data) {
  Region* const region = Regions<Region>::instance().find(data);
  std::unique_lock lock(region->mutex);
  region->fit.release(static_cast<std::byte*>(data) - region->block.data());
  end_if_unused(region, std::move(lock));
}

Bytes DynamicPool::live_bytes() const {
  const std::scoped_lock lock(region_->mutex);
  return region_->fit.live_bytes();
}

Bytes DynamicPool::peak_bytes() const {
  const std::scoped_lock lock(region_->mutex);
  return region_->fit.peak();
}

void DynamicPool::reset_peak() {
  const std::scoped_lock lock(region_->mutex);
  region_->fit.reset_peak();
}

std::int64_t DynamicPool::count() const {
  const std::scoped_lock lock(region_->mutex);
  return region_->count;
}

}  // namespace lowtide::device
