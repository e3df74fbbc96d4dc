#include "simulated/allocator.h"

#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "simulated/capture.h"
#include "simulated/graph_pools.h"
#include "simulated/state.h"

namespace lowtide::simulated {
namespace {

thread_local device::MemorySource* device_source = nullptr;

void release_on_device(void* data) { state().memory.release(data); }

/// Blocks of the device's own memory, for the thread's current stream; of a captured stream, of the
/// graph's pool.
class OwnMemory final : public device::MemorySource {
 public:
  Grant allocate(std::size_t bytes) override {
    state().streams.drop_owners();
    if (const Capture* const capture = capture_of(current_stream())) {
      return GraphPools::instance().allocate(capture->pool(), static_cast<Bytes>(bytes),
                                             current_stream());
    }
    return {state().memory.allocate(static_cast<Bytes>(bytes), current_stream()),
            &release_on_device};
  }
};

/// For requests without a source.
class UnservedMemory final : public device::MemorySource {
 public:
  Grant allocate(std::size_t bytes) override {
    const Grant grant = own_memory().allocate(bytes);
    state().memory.counters().unserved.add(grant.data, bytes);
    return grant;
  }
};

/// From what serves this thread at the moment.
class CurrentMemory final : public device::MemorySource {
 public:
  Grant allocate(std::size_t bytes) override { return serving_source().allocate(bytes); }
};

CurrentMemory& current_memory() {
  static CurrentMemory memory;
  return memory;
}

/// How to release host addresses that sources with a Release of their own granted.
class Grants {
 public:
  static Grants& instance() {
    static Grants* const grants = new Grants;  // outlives every tensor of the program
    return *grants;
  }
  void add(const void* host, device::MemorySource::Release release) {
    const std::scoped_lock lock(mutex_);
    releases_[host] = release;
  }
  /// Removes it; the device's own without an entry.
  device::MemorySource::Release take(const void* host) {
    const std::scoped_lock lock(mutex_);
    const auto node = releases_.extract(host);
    return node.empty() ? &release_on_device : node.mapped();
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, device::MemorySource::Release> releases_;
};

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, kDevice};
    const device::MemorySource::Grant grant = current_memory().allocate(bytes);
    return {grant.data, grant.data, grant.release, kDevice};
  }

  void copy_data(void* to, const void* from, std::size_t count) const override {
    refuse_in_own_capture("a copy of a storage, which waits for the stream");
    State& all = state();
    all.streams.finish(current_stream());
    std::memcpy(all.memory.to_host(to), all.memory.to_host(from), count);
  }

  bool initialized() override { return is_installed(); }
  void emptyCache(c10::MempoolId_t) override {
    refuse_wait_in_capture("empty_cache()", std::nullopt);
    state().memory.trim();
  }
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    state().memory.use(data.get(), stream.id());
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    return state().memory.stats();
  }
  void resetAccumulatedStats(c10::DeviceIndex) override { state().memory.reset_accumulated(); }
  void resetPeakStats(c10::DeviceIndex) override { state().memory.reset_peaks(); }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) override {
    const Memory& memory = state().memory;
    return {static_cast<std::size_t>(memory.free_bytes()),
            static_cast<std::size_t>(memory.bytes())};
  }
};

}  // namespace

c10::DeviceAllocator& allocator() {
  static Allocator* const instance = new Allocator;  // outlives every tensor of the program
  return *instance;
}

device::MemorySource& own_memory() {
  static OwnMemory memory;
  return memory;
}

device::MemorySource& serving_source() {
  static UnservedMemory unserved;
  if (device_source != nullptr) return *device_source;
  return unserved;
}

device::MemorySource& kernel_source() {
  static OnHost source(current_memory());
  return source;
}

DeviceServing::DeviceServing(device::MemorySource& source) : previous_(device_source) {
  device_source = &source;
}

DeviceServing::~DeviceServing() { device_source = previous_; }

device::MemorySource::Grant OnHost::allocate(std::size_t bytes) {
  const Grant grant = source_.allocate(bytes);
  std::byte* const host = state().memory.to_host(grant.data);
  if (grant.release == &device::keep) return {host, &device::keep};
  if (grant.release != &release_on_device) Grants::instance().add(host, grant.release);
  return {host, &release_on_host};
}

void release_on_host(void* host) {
  const device::MemorySource::Release release = Grants::instance().take(host);
  release(state().memory.to_device(host));
}

c10::DataPtr as_device_memory(c10::DataPtr host) {
  void* const data = state().memory.to_device(host.get());
  const c10::DeleterFnPtr release = host.get_deleter();
  return {data, host.release_context(), release, kDevice};
}

}  // namespace lowtide::simulated
