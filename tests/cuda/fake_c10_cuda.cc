#include "fake_c10_cuda.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace c10::cuda::CUDACachingAllocator {

std::atomic<CUDAAllocator*> allocator{&lowtide::cuda::FakeNative::instance()};

}  // namespace c10::cuda::CUDACachingAllocator

namespace lowtide::cuda {

using namespace c10::cuda::CUDACachingAllocator;

namespace {

constexpr std::size_t kBlock = 512;

c10::Device current_device() {
  return c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->getDevice();
}

}  // namespace

std::atomic<CUDAAllocator*>& fake_slot() { return allocator; }

FakeNative& FakeNative::instance() {
  static auto* const native = new FakeNative;
  return *native;
}

std::vector<std::string> FakeNative::calls() const {
  const std::scoped_lock lock(mutex_);
  return calls_;
}

void FakeNative::forget_calls() {
  const std::scoped_lock lock(mutex_);
  calls_.clear();
}

std::size_t FakeNative::live_blocks() const {
  const std::scoped_lock lock(mutex_);
  return blocks_.size();
}

std::vector<c10::StreamId> FakeNative::streams_of(const void* data) const {
  const std::scoped_lock lock(mutex_);
  return blocks_.at(data).streams;
}

void FakeNative::note(const char* call) const {
  const std::scoped_lock lock(mutex_);
  calls_.emplace_back(call);
}

void* FakeNative::take(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::scoped_lock lock(mutex_);
  void* const data = std::aligned_alloc(kBlock, (bytes + kBlock - 1) / kBlock * kBlock);
  std::memset(data, 0xab, bytes);  // what was there before
  blocks_[data] = {bytes, {}};
  trace(TraceEntry::ALLOC, data, bytes);
  return data;
}

void FakeNative::give(void* data) {
  if (data == nullptr) return;
  const std::scoped_lock lock(mutex_);
  const auto block = blocks_.find(data);
  TORCH_CHECK(block != blocks_.end(), "invalid device pointer: ", data);
  trace(TraceEntry::FREE_REQUESTED, data, block->second.bytes);
  blocks_.erase(block);
  std::free(data);
}

void FakeNative::trace(TraceEntry::Action action, void* data, std::size_t bytes) {
  const TraceEntry entry(action, current_device().index(), reinterpret_cast<std::size_t>(data),
                         bytes, nullptr, {0, 0}, {});
  for (const auto& tracker : trackers_) tracker(entry);
}

void FakeNative::release(void* data) { instance().give(data); }

c10::DataPtr FakeNative::allocate(std::size_t bytes) {
  note("allocate");
  void* const data = take(bytes);
  return {data, data, &release, current_device()};
}

c10::DeleterFnPtr FakeNative::raw_deleter() const {
  note("raw_deleter");
  return &release;
}

bool FakeNative::is_simple_data_ptr(const c10::DataPtr& data) const {
  note("is_simple_data_ptr");
  return data.get() == data.get_context();
}

void FakeNative::copy_data(void* to, const void* from, std::size_t count) const {
  note("copy_data");
  std::memcpy(to, from, count);
}

bool FakeNative::initialized() {
  note("initialized");
  return true;
}

void FakeNative::recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) {
  note("recordStream");
  if (data.get() == nullptr || data.get_deleter() != &release) return;
  const std::scoped_lock lock(mutex_);
  blocks_.at(data.get()).streams.push_back(stream.id());
}

void* FakeNative::raw_alloc(std::size_t bytes) {
  note("raw_alloc");
  return take(bytes);
}

void* FakeNative::raw_alloc_with_stream(std::size_t bytes, cudaStream_t) {
  note("raw_alloc_with_stream");
  return take(bytes);
}

void FakeNative::raw_delete(void* data) {
  note("raw_delete");
  give(data);
}

void FakeNative::cacheInfo(c10::DeviceIndex, std::size_t* largest) {
  note("cacheInfo");
  *largest = 11;
}

void* FakeNative::getBaseAllocation(void* data, std::size_t* bytes) {
  note("getBaseAllocation");
  *bytes = 13;
  return data;
}

void FakeNative::attachAllocatorTraceTracker(AllocatorTraceTracker tracker) {
  note("attachAllocatorTraceTracker");
  const std::scoped_lock lock(mutex_);
  trackers_.push_back(std::move(tracker));
}

#if LOWTIDE_TORCH_SINCE(13)
c10::DataPtr FakeNative::allocateWithAddress(std::size_t bytes, void*) {
  note("allocateWithAddress");
  void* const data = take(bytes);
  return {data, data, &release, current_device()};
}
#endif

std::string FakeNative::name() {
  note("name");
  return name_;
}

void FakeNative::emptyCache(c10::MempoolId_t) { note("emptyCache"); }

void FakeNative::resetAccumulatedStats(c10::DeviceIndex) { note("resetAccumulatedStats"); }

void FakeNative::resetPeakStats(c10::DeviceIndex) { note("resetPeakStats"); }

void FakeNative::init(int) { note("init"); }

void FakeNative::setMemoryFraction(double, c10::DeviceIndex) { note("setMemoryFraction"); }

void FakeNative::enable(bool) { note("enable"); }

void FakeNative::beginAllocateToPool(c10::DeviceIndex, c10::MempoolId_t,
                                     std::function<bool(cudaStream_t)>) {
  note("beginAllocateToPool");
}

void FakeNative::endAllocateToPool(c10::DeviceIndex, c10::MempoolId_t) {
  note("endAllocateToPool");
}

#if LOWTIDE_TORCH_SINCE(13)
void FakeNative::markCaptureBegin(c10::DeviceIndex) { note("markCaptureBegin"); }

void FakeNative::markCaptureEnd(c10::DeviceIndex) { note("markCaptureEnd"); }
#endif

void FakeNative::releasePool(c10::DeviceIndex, c10::MempoolId_t) { note("releasePool"); }

void FakeNative::createOrIncrefPool(c10::DeviceIndex, c10::MempoolId_t,
                                    std::shared_ptr<CUDAAllocator>) {
  note("createOrIncrefPool");
}

void FakeNative::setUseOnOOM(c10::DeviceIndex, c10::MempoolId_t, bool) { note("setUseOnOOM"); }

void FakeNative::setNoSplit(c10::DeviceIndex, c10::MempoolId_t) { note("setNoSplit"); }

void FakeNative::recordHistory(bool, CreateContextFn, std::size_t, RecordContext, bool,
                               const std::vector<std::string>&) {
  note("recordHistory");
}

void FakeNative::recordAnnotation(const std::vector<std::pair<std::string, std::string>>&) {
  note("recordAnnotation");
}

void FakeNative::pushCompileContext(std::string&) { note("pushCompileContext"); }

void FakeNative::popCompileContext() { note("popCompileContext"); }

#if LOWTIDE_TORCH_SINCE(14)
bool FakeNative::supportsUserMetadata() {
  note("supportsUserMetadata");
  return true;
}

void FakeNative::annotateMemory(const void*, const std::string&) { note("annotateMemory"); }
#endif

void FakeNative::setUserMetadata(const std::string&) { note("setUserMetadata"); }

void FakeNative::attachOutOfMemoryObserver(OutOfMemoryObserver) {
  note("attachOutOfMemoryObserver");
}

#if LOWTIDE_TORCH_SINCE(12)
void FakeNative::attachOomRejectionObserver(OomRejectionObserver) {
  note("attachOomRejectionObserver");
}
#endif

void FakeNative::enablePeerAccess(c10::DeviceIndex, c10::DeviceIndex) { note("enablePeerAccess"); }

c10::CachingDeviceAllocator::DeviceStats FakeNative::getDeviceStats(c10::DeviceIndex) {
  note("getDeviceStats");
  return {};
}

std::pair<std::size_t, std::size_t> FakeNative::getMemoryInfo(c10::DeviceIndex) {
  note("getMemoryInfo");
  return {7, 9};
}

double FakeNative::getMemoryFraction(c10::DeviceIndex) {
  note("getMemoryFraction");
  return 0.5;
}

std::vector<StreamSegmentSize> FakeNative::getExpandableSegmentSizes(c10::DeviceIndex) {
  note("getExpandableSegmentSizes");
  return {};
}

bool FakeNative::isEnabled() const {
  note("isEnabled");
  return true;
}

SnapshotInfo FakeNative::snapshot(c10::MempoolId_t, bool) {
  note("snapshot");
  return {};
}

int FakeNative::getPoolUseCount(c10::DeviceIndex, c10::MempoolId_t) {
  note("getPoolUseCount");
  return 3;
}

bool FakeNative::checkPoolLiveAllocations(c10::DeviceIndex, c10::MempoolId_t,
                                          const std::unordered_set<void*>&) {
  note("checkPoolLiveAllocations");
  return true;
}

ShareableHandle FakeNative::shareIpcHandle(void*) {
  note("shareIpcHandle");
  return {5, "handle"};
}

std::shared_ptr<void> FakeNative::getIpcDevPtr(std::string) {
  note("getIpcDevPtr");
  return nullptr;
}

bool FakeNative::isHistoryEnabled() {
  note("isHistoryEnabled");
  return true;
}

#if LOWTIDE_TORCH_SINCE(12)
std::shared_ptr<c10::GatheredContext> FakeNative::getContextForPointer(const void*) {
  note("getContextForPointer");
  return nullptr;
}
#endif

std::string FakeNative::getUserMetadata() {
  note("getUserMetadata");
  return "metadata";
}

cudaError_t FakeNative::memcpyAsync(void*, int, const void*, int, std::size_t, cudaStream_t, bool) {
  note("memcpyAsync");
  return cudaErrorNotReady;
}

std::shared_ptr<AllocatorState> FakeNative::getCheckpointState(c10::DeviceIndex, c10::MempoolId_t) {
  note("getCheckpointState");
  return nullptr;
}

CheckpointDelta FakeNative::setCheckpointPoolState(c10::DeviceIndex,
                                                   std::shared_ptr<AllocatorState>) {
  note("setCheckpointPoolState");
  return {};
}

}  // namespace lowtide::cuda
