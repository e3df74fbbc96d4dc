#include "device/dynamic_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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
  /// Of the host: the system gives its pages when they are opened.
  struct Pages {
    explicit Pages(Bytes bytes)
        : block(bytes, Block::Access::none),
          range(block.data(), block.bytes(), &DynamicPool::release) {}
    Block block;
    OwnedRange range;
  };

  Region(const ComputeDevice& device, Bytes most) : capacity(most) {
    if (device.is_host_memory()) {
      begin = pages.emplace(most).block.data();
    } else {
      whole = device.allocate_block(most);
      begin = whole.get();
    }
  }

  const Bytes capacity;        ///< pages may have more
  std::optional<Pages> pages;  ///< else `whole`
  std::shared_ptr<std::byte> whole;
  std::byte* begin = nullptr;
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
  Regions<Region>::instance().remove(region->begin);
  delete region;
}

}  // namespace

DynamicPool::DynamicPool(const ComputeDevice& device, Bytes capacity)
    : region_(new Region(device, capacity)) {
  Regions<Region>::instance().add(region_->begin, region_);
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
  if (region_->pages) region_->pages->block.open_to(region_->fit.top());
  ++region_->count;
  return {region_->begin + offset, &DynamicPool::release};
}

void DynamicPool::release(void* data) {
  Region* const region = Regions<Region>::instance().find(data);
  std::unique_lock lock(region->mutex);
  region->fit.release(static_cast<std::byte*>(data) - region->begin);
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
