#include "device/allocation.h"

#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "base/error.h"

namespace lowtide::device {
namespace {

thread_local MemorySource* thread_source = nullptr;
std::atomic<MemorySource*> worker_source = nullptr;

struct Range {
  const std::byte* end;
  MemorySource::Release release;
};

/// The framework's CPU allocator from the first Serving to the end of the process. It is never
/// removed, since its memory may be released at any time.
class Hook final : public c10::Allocator {
 public:
  static Hook& instance() {
    static Hook* const hook = new Hook;  // outlives every tensor of the program
    return *hook;
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    MemorySource* const source = current_source();
    if (source == nullptr) return counting_ ? counted(bytes) : system_->allocate(bytes);
    if (bytes == 0) return {nullptr, c10::Device(c10::DeviceType::CPU)};
    const MemorySource::Grant grant = source->allocate(bytes);
    return {grant.data, grant.data, grant.release, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

  MemorySource::Grant from_system(std::size_t bytes) {
    c10::DataPtr memory = system_->allocate(bytes);
    void* const data = memory.get();
    if (counting_ && owns_itself(memory)) {
      counters_.taken.add(data, bytes);
      memory.release_context();
      return {data, &release_to_system};
    }
    const c10::DeleterFnPtr release = memory.get_deleter();
    return {memory.release_context(), release};
  }

  AllocationCounters& count() {
    counting_ = true;
    return counters_;
  }

  /// Sources cannot serve requests that go to another allocator.
  void require_installed() const {
    if (c10::GetCPUAllocator() == this) return;
    throw Error("another CPU allocator was installed in this process after Lowtide's; install it "
                "before the first step, so that Lowtide gets its memory from it");
  }

  void add(const std::byte* begin, const Range& range) {
    const std::unique_lock lock(mutex_);
    ranges_[begin] = range;
  }

  void remove(const std::byte* begin) {
    const std::unique_lock lock(mutex_);
    ranges_.erase(begin);
  }

 private:
  /// Registers with the highest priority; the previous allocator becomes the system.
  Hook() : system_(c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(this, std::numeric_limits<std::uint8_t>::max());
  }

  c10::DataPtr counted(std::size_t bytes) {
    c10::DataPtr memory = system_->allocate(bytes);
    if (!owns_itself(memory)) return memory;
    void* const data = memory.release_context();
    counters_.taken.add(data, bytes);
    counters_.unserved.add(data, bytes);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }

  /// Whether the address alone suffices to release the memory.
  static bool owns_itself(const c10::DataPtr& memory) {
    return memory.get() != nullptr && memory.get() == memory.get_context();
  }

  static MemorySource* current_source() {
    if (thread_source != nullptr) return thread_source;
    MemorySource* const workers = worker_source.load(std::memory_order_relaxed);
    return workers != nullptr && at::in_parallel_region() ? workers : nullptr;
  }

  std::optional<MemorySource::Release> owner(const void* data) const {
    const std::shared_lock lock(mutex_);
    const auto after = ranges_.upper_bound(static_cast<const std::byte*>(data));
    const bool owned = after != ranges_.begin() && data < std::prev(after)->second.end;
    return owned ? std::optional(std::prev(after)->second.release) : std::nullopt;
  }

  static void release(void* data) {
    if (const auto owned = instance().owner(data)) {
      (*owned)(data);  // an owned range: its block's begin may have the same address
    } else {
      release_to_system(data);
    }
  }

  static void release_to_system(void* data) {
    Hook& hook = instance();
    hook.remove_counted(data);
    hook.system_->raw_deleter()(data);
  }

  void remove_counted(const void* data) {
    if (!counting_) return;
    counters_.taken.remove(data);
    counters_.unserved.remove(data);
  }

  c10::Allocator* system_;
  AllocationCounters counters_;
  std::atomic<bool> counting_ = false;
  mutable std::shared_mutex mutex_;
  std::map<const std::byte*, Range> ranges_;  ///< by begin, disjoint
};

class SystemSource final : public MemorySource {
 public:
  Grant allocate(std::size_t bytes) override { return Hook::instance().from_system(bytes); }
};

}  // namespace

Serving::Serving(MemorySource& source) : previous_(thread_source) {
  Hook::instance().require_installed();
  thread_source = &source;
}

Serving::~Serving() { thread_source = previous_; }

ServingWorkers::ServingWorkers(MemorySource& source) {
  Hook::instance();
  worker_source = &source;
}

ServingWorkers::~ServingWorkers() { worker_source = nullptr; }

OwnedRange::OwnedRange(const void* data, Bytes bytes, MemorySource::Release release)
    : begin_(static_cast<const std::byte*>(data)) {
  Hook::instance().add(begin_, {begin_ + bytes, release});
}

OwnedRange::~OwnedRange() { Hook::instance().remove(begin_); }

const AllocationCounters& count_allocations() { return Hook::instance().count(); }

void reset_allocation_peaks() {
  AllocationCounters& counters = Hook::instance().count();
  counters.taken.reset_peak();
  counters.unserved.reset_peak();
}

void keep(void*) {}

MemorySource& system_source() {
  static SystemSource source;
  return source;
}

}  // namespace lowtide::device
