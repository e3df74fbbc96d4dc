#include "simulated/hardware/pinned_memory.h"

#include <c10/core/impl/alloc_cpu.h>

#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>

namespace lowtide::simulated {
namespace {

/// Keeps no released memory, and counts nothing.
class PinnedAllocator final : public at::HostAllocator {
 public:
  static PinnedAllocator& instance() {
    static PinnedAllocator* const allocator = new PinnedAllocator;  // outlives every tensor
    return *allocator;
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = c10::alloc_cpu(bytes);
    const std::scoped_lock lock(mutex_);
    if (data != nullptr) ends_[data] = static_cast<std::byte*>(data) + bytes;
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

  /// Copies that are still to be done own their memory.
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { refuse_statistics(); }
  void reset_accumulated_stats() override { refuse_statistics(); }
  void reset_peak_stats() override { refuse_statistics(); }

  bool contains(const void* data) {
    const std::scoped_lock lock(mutex_);
    const auto after = ends_.upper_bound(data);
    return after != ends_.begin() && data < std::prev(after)->second;
  }

 private:
  [[noreturn]] static void refuse_statistics() {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "the simulated device keeps no statistics of pinned memory");
  }

  static void release(void* data) {
    if (data == nullptr) return;
    PinnedAllocator& self = instance();
    {
      const std::scoped_lock lock(self.mutex_);
      self.ends_.erase(data);
    }
    c10::free_cpu(data);
  }

  std::mutex mutex_;
  std::map<const void*, const void*> ends_;  ///< by begin
};

}  // namespace

at::HostAllocator& pinned_allocator() { return PinnedAllocator::instance(); }

bool is_pinned(const void* data) { return PinnedAllocator::instance().contains(data); }

}  // namespace lowtide::simulated
