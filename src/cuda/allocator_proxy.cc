#include "cuda/allocator_proxy.h"

#include <pthread.h>

#include <utility>

#include "base/error.h"
#include "cuda/counted_allocations.h"
#include "cuda/served_thread.h"

namespace lowtide::cuda {
namespace {

/// The same memory with another release, which is not called.
struct Borrowed {
  Borrowed(const c10::DataPtr& lent, c10::DeleterFnPtr release)
      : memory(lent.get(), lent.get(), release, lent.device()) {}
  ~Borrowed() { memory.release_context(); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  c10::DataPtr memory;
};

}  // namespace

AllocatorProxy& AllocatorProxy::instance() {
  static AllocatorProxy* const proxy = create();  // threads may be in its calls at any time
  return *proxy;
}

AllocatorProxy* AllocatorProxy::create() {
  CUDAAllocator* const native = allocator_slot();
  require_caching_allocator(native);
  static AllocatorProxy* proxy;
  proxy = new AllocatorProxy(*native);
  pthread_atfork([] { proxy->mutex_.lock(); }, [] { proxy->mutex_.unlock(); },
                 [] { proxy->mutex_.unlock(); });
  return proxy;
}

AllocatorProxy::InSlot::InSlot() { instance().add_user(); }
AllocatorProxy::InSlot::~InSlot() { instance().remove_user(); }

void AllocatorProxy::add_user() {
  const std::scoped_lock lock(mutex_);
  enter_slot();
  ++users_;
}

void AllocatorProxy::remove_user() {
  const std::scoped_lock lock(mutex_);
  --users_;
  leave_slot_if_unused();
}

void AllocatorProxy::enter_slot() {
  CUDAAllocator* present = &native_;
  if (!allocator_slot().compare_exchange_strong(present, this) && present != this) {
    require_caching_allocator(present);
    throw InputError("another CUDA allocator was installed in this process after the first step; "
                     "install it before, or not at all");
  }
}

/// Leaves another allocator there that came meanwhile.
void AllocatorProxy::leave_slot_if_unused() {
  if (users_ > 0 || !raw_.empty() || !from_native_.empty()) return;
  CUDAAllocator* present = this;
  allocator_slot().compare_exchange_strong(present, &native_);
}

device::MemorySource::Grant AllocatorProxy::from_native(std::size_t bytes) {
  const OwnRequest own;
  c10::DataPtr memory = native_.allocate(bytes);
  const std::scoped_lock lock(mutex_);
  enter_slot();
  from_native_.insert(memory.get());
  return {memory.release_context(), &release_to_native};
}

void AllocatorProxy::release_to_native(void* data) {
  AllocatorProxy& proxy = instance();
  {
    const std::scoped_lock lock(proxy.mutex_);
    proxy.from_native_.erase(data);
    proxy.leave_slot_if_unused();
  }
  proxy.native_.raw_delete(data);
}

bool AllocatorProxy::gave_from_native(const void* data) {
  const std::scoped_lock lock(mutex_);
  return from_native_.contains(data);
}

c10::DataPtr AllocatorProxy::allocate(std::size_t bytes) {
  device::MemorySource* const source = bytes > 0 ? ServedThread::source() : nullptr;
  if (source == nullptr) return native_.allocate(bytes);
  const device::MemorySource::Grant grant = source->allocate(bytes);
  return {grant.data, grant.data, grant.release, ServedThread::device()};
}

void* AllocatorProxy::raw_alloc(std::size_t bytes) {
  device::MemorySource* const source = bytes > 0 ? ServedThread::source() : nullptr;
  return source == nullptr ? native_.raw_alloc(bytes) : served_raw(*source, bytes);
}

void* AllocatorProxy::raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) {
  device::MemorySource* const source = bytes > 0 ? ServedThread::source_for(stream) : nullptr;
  return source == nullptr ? native_.raw_alloc_with_stream(bytes, stream)
                           : served_raw(*source, bytes);
}

void* AllocatorProxy::served_raw(device::MemorySource& source, std::size_t bytes) {
  const device::MemorySource::Grant grant = source.allocate(bytes);
  const std::scoped_lock lock(mutex_);
  raw_.insert_or_assign(grant.data, grant.release);
  return grant.data;
}

void AllocatorProxy::raw_delete(void* data) {
  if (const device::MemorySource::Release release = take_raw(data)) return release(data);
  native_.raw_delete(data);
}

/// Null for memory of the caching allocator.
device::MemorySource::Release AllocatorProxy::take_raw(void* data) {
  const std::scoped_lock lock(mutex_);
  const auto node = raw_.extract(data);
  if (node.empty()) return nullptr;
  leave_slot_if_unused();
  return node.mapped();
}

void AllocatorProxy::recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) {
  if (!gave_from_native(data.get())) return native_.recordStream(data, stream);
  // Without its own release, the caching allocator would take this memory for another's.
  const Borrowed known(data, native_.raw_deleter());
  native_.recordStream(known.memory, stream);
}

void AllocatorProxy::recordStream(const c10::DataPtr& data, c10::Stream stream) {
  recordStream(data, c10::cuda::CUDAStream(stream));
}

}  // namespace lowtide::cuda
