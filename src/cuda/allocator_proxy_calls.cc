// The calls that the proxy hands on as they are.

#include <utility>

#include "cuda/allocator_proxy.h"

namespace lowtide::cuda {

using namespace c10::cuda::CUDACachingAllocator;

bool AllocatorProxy::is_simple_data_ptr(const c10::DataPtr& data) const {
  return native_.is_simple_data_ptr(data);
}

c10::DeleterFnPtr AllocatorProxy::raw_deleter() const { return native_.raw_deleter(); }

void AllocatorProxy::copy_data(void* to, const void* from, std::size_t count) const {
  native_.copy_data(to, from, count);
}

bool AllocatorProxy::initialized() { return native_.initialized(); }

void AllocatorProxy::emptyCache(c10::MempoolId_t pool) { native_.emptyCache(pool); }

c10::CachingDeviceAllocator::DeviceStats AllocatorProxy::getDeviceStats(c10::DeviceIndex device) {
  return native_.getDeviceStats(device);
}

void AllocatorProxy::resetAccumulatedStats(c10::DeviceIndex device) {
  native_.resetAccumulatedStats(device);
}

void AllocatorProxy::resetPeakStats(c10::DeviceIndex device) { native_.resetPeakStats(device); }

std::pair<std::size_t, std::size_t> AllocatorProxy::getMemoryInfo(c10::DeviceIndex device) {
  return native_.getMemoryInfo(device);
}

void AllocatorProxy::init(int device_count) { native_.init(device_count); }

double AllocatorProxy::getMemoryFraction(c10::DeviceIndex device) {
  return native_.getMemoryFraction(device);
}

void AllocatorProxy::setMemoryFraction(double fraction, c10::DeviceIndex device) {
  native_.setMemoryFraction(fraction, device);
}

std::vector<StreamSegmentSize> AllocatorProxy::getExpandableSegmentSizes(c10::DeviceIndex device) {
  return native_.getExpandableSegmentSizes(device);
}

void AllocatorProxy::enable(bool value) { native_.enable(value); }

bool AllocatorProxy::isEnabled() const { return native_.isEnabled(); }

void AllocatorProxy::cacheInfo(c10::DeviceIndex device, std::size_t* largest) {
  native_.cacheInfo(device, largest);
}

void* AllocatorProxy::getBaseAllocation(void* data, std::size_t* bytes) {
  return native_.getBaseAllocation(data, bytes);
}

SnapshotInfo AllocatorProxy::snapshot(c10::MempoolId_t pool, bool with_traces) {
  return native_.snapshot(pool, with_traces);
}

void AllocatorProxy::beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                                         std::function<bool(cudaStream_t)> filter) {
  native_.beginAllocateToPool(device, pool, std::move(filter));
}

void AllocatorProxy::endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool) {
  native_.endAllocateToPool(device, pool);
}

#if LOWTIDE_TORCH_SINCE(13)
void AllocatorProxy::markCaptureBegin(c10::DeviceIndex device) { native_.markCaptureBegin(device); }

void AllocatorProxy::markCaptureEnd(c10::DeviceIndex device) { native_.markCaptureEnd(device); }
#endif

void AllocatorProxy::releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) {
  native_.releasePool(device, pool);
}

int AllocatorProxy::getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool) {
  return native_.getPoolUseCount(device, pool);
}

void AllocatorProxy::createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                                        std::shared_ptr<CUDAAllocator> allocator) {
  native_.createOrIncrefPool(device, pool, std::move(allocator));
}

void AllocatorProxy::setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t pool, bool use) {
  native_.setUseOnOOM(device, pool, use);
}

void AllocatorProxy::setNoSplit(c10::DeviceIndex device, c10::MempoolId_t pool) {
  native_.setNoSplit(device, pool);
}

bool AllocatorProxy::checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t pool,
                                              const std::unordered_set<void*>& expected) {
  return native_.checkPoolLiveAllocations(device, pool, expected);
}

ShareableHandle AllocatorProxy::shareIpcHandle(void* data) { return native_.shareIpcHandle(data); }

std::shared_ptr<void> AllocatorProxy::getIpcDevPtr(std::string handle) {
  return native_.getIpcDevPtr(std::move(handle));
}

bool AllocatorProxy::isHistoryEnabled() { return native_.isHistoryEnabled(); }

#if LOWTIDE_TORCH_SINCE(12)
std::shared_ptr<c10::GatheredContext> AllocatorProxy::getContextForPointer(const void* data) {
  return native_.getContextForPointer(data);
}
#endif

void AllocatorProxy::recordHistory(bool enabled, CreateContextFn recorder, std::size_t most_entries,
                                   RecordContext when, bool clear,
                                   const std::vector<std::string>& skipped) {
  native_.recordHistory(enabled, recorder, most_entries, when, clear, skipped);
}

void AllocatorProxy::recordAnnotation(
    const std::vector<std::pair<std::string, std::string>>& entries) {
  native_.recordAnnotation(entries);
}

void AllocatorProxy::pushCompileContext(std::string& text) { native_.pushCompileContext(text); }

void AllocatorProxy::popCompileContext() { native_.popCompileContext(); }

#if LOWTIDE_TORCH_SINCE(14)
bool AllocatorProxy::supportsUserMetadata() { return native_.supportsUserMetadata(); }

void AllocatorProxy::annotateMemory(const void* data, const std::string& text) {
  native_.annotateMemory(data, text);
}
#endif

void AllocatorProxy::setUserMetadata(const std::string& text) { native_.setUserMetadata(text); }

std::string AllocatorProxy::getUserMetadata() { return native_.getUserMetadata(); }

void AllocatorProxy::attachOutOfMemoryObserver(OutOfMemoryObserver observer) {
  native_.attachOutOfMemoryObserver(std::move(observer));
}

#if LOWTIDE_TORCH_SINCE(12)
void AllocatorProxy::attachOomRejectionObserver(OomRejectionObserver observer) {
  native_.attachOomRejectionObserver(std::move(observer));
}
#endif

void AllocatorProxy::attachAllocatorTraceTracker(AllocatorTraceTracker tracker) {
  native_.attachAllocatorTraceTracker(std::move(tracker));
}

void AllocatorProxy::enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex accessed) {
  native_.enablePeerAccess(device, accessed);
}

cudaError_t AllocatorProxy::memcpyAsync(void* to, int to_device, const void* from, int from_device,
                                        std::size_t count, cudaStream_t stream, bool p2p_enabled) {
  return native_.memcpyAsync(to, to_device, from, from_device, count, stream, p2p_enabled);
}

std::shared_ptr<AllocatorState> AllocatorProxy::getCheckpointState(c10::DeviceIndex device,
                                                                   c10::MempoolId_t pool) {
  return native_.getCheckpointState(device, pool);
}

CheckpointDelta AllocatorProxy::setCheckpointPoolState(c10::DeviceIndex device,
                                                       std::shared_ptr<AllocatorState> state) {
  return native_.setCheckpointPoolState(device, std::move(state));
}

#if LOWTIDE_TORCH_SINCE(13)
c10::DataPtr AllocatorProxy::allocateWithAddress(std::size_t bytes, void* address) {
  return native_.allocateWithAddress(bytes, address);
}
#endif

std::string AllocatorProxy::name() { return native_.name(); }

}  // namespace lowtide::cuda
