#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/slot.h"

namespace lowtide::cuda {

/// In place of LibTorch's caching allocator: memory of the host, and a record of every call. It
/// keeps the rules of the real one that others rely on: sizes in blocks of 512 bytes, a release of
/// its own that does not go through the slot, an error for foreign addresses, and no effect of
/// recordStream() on memory with another release.
class FakeNative : public c10::cuda::CUDACachingAllocator::CUDAAllocator {
 public:
  explicit FakeNative(std::string name = "native") : name_(std::move(name)) {}

  static FakeNative& instance();  ///< of the slot

  struct Block {
    std::size_t bytes;
    std::vector<c10::StreamId> streams;  ///< of recordStream()
  };

  std::vector<std::string> calls() const;  ///< names, in order
  void forget_calls();
  std::size_t live_blocks() const;
  std::vector<c10::StreamId> streams_of(const void* data) const;

  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  bool is_simple_data_ptr(const c10::DataPtr& data) const override;
  void copy_data(void* to, const void* from, std::size_t count) const override;
  bool initialized() override;
  void emptyCache(c10::MempoolId_t pool) override;
  void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override;
  void resetAccumulatedStats(c10::DeviceIndex) override;
  void resetPeakStats(c10::DeviceIndex) override;
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) override;
  void* raw_alloc(std::size_t bytes) override;
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t) override;
  void raw_delete(void* data) override;
  void init(int) override;
  double getMemoryFraction(c10::DeviceIndex) override;
  void setMemoryFraction(double, c10::DeviceIndex) override;
  std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex) override;
  void enable(bool) override;
  bool isEnabled() const override;
  void cacheInfo(c10::DeviceIndex, std::size_t* largest) override;
  void* getBaseAllocation(void* data, std::size_t* bytes) override;
  c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot(c10::MempoolId_t, bool) override;
  void beginAllocateToPool(c10::DeviceIndex, c10::MempoolId_t,
                           std::function<bool(cudaStream_t)>) override;
  void endAllocateToPool(c10::DeviceIndex, c10::MempoolId_t) override;
#if LOWTIDE_TORCH_SINCE(13)
  void markCaptureBegin(c10::DeviceIndex) override;
  void markCaptureEnd(c10::DeviceIndex) override;
#endif
  void releasePool(c10::DeviceIndex, c10::MempoolId_t) override;
  int getPoolUseCount(c10::DeviceIndex, c10::MempoolId_t) override;
  void createOrIncrefPool(c10::DeviceIndex, c10::MempoolId_t,
                          std::shared_ptr<CUDAAllocator>) override;
  void setUseOnOOM(c10::DeviceIndex, c10::MempoolId_t, bool) override;
  void setNoSplit(c10::DeviceIndex, c10::MempoolId_t) override;
  bool checkPoolLiveAllocations(c10::DeviceIndex, c10::MempoolId_t,
                                const std::unordered_set<void*>&) override;
  c10::cuda::CUDACachingAllocator::ShareableHandle shareIpcHandle(void*) override;
  std::shared_ptr<void> getIpcDevPtr(std::string) override;
  bool isHistoryEnabled() override;
#if LOWTIDE_TORCH_SINCE(12)
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void*) override;
#endif
  void recordHistory(bool, c10::CachingDeviceAllocator::CreateContextFn, std::size_t,
                     c10::CachingDeviceAllocator::RecordContext, bool,
                     const std::vector<std::string>&) override;
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>&) override;
  void pushCompileContext(std::string&) override;
  void popCompileContext() override;
#if LOWTIDE_TORCH_SINCE(14)
  bool supportsUserMetadata() override;
  void annotateMemory(const void*, const std::string&) override;
#endif
  void setUserMetadata(const std::string&) override;
  std::string getUserMetadata() override;
  void attachOutOfMemoryObserver(c10::cuda::CUDACachingAllocator::OutOfMemoryObserver) override;
#if LOWTIDE_TORCH_SINCE(12)
  void attachOomRejectionObserver(c10::cuda::CUDACachingAllocator::OomRejectionObserver) override;
#endif
  void attachAllocatorTraceTracker(
      c10::CachingDeviceAllocator::AllocatorTraceTracker tracker) override;
  void enablePeerAccess(c10::DeviceIndex, c10::DeviceIndex) override;
  cudaError_t memcpyAsync(void*, int, const void*, int, std::size_t, cudaStream_t, bool) override;
  std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> getCheckpointState(
      c10::DeviceIndex, c10::MempoolId_t) override;
  c10::cuda::CUDACachingAllocator::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex, std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState>) override;
#if LOWTIDE_TORCH_SINCE(13)
  c10::DataPtr allocateWithAddress(std::size_t bytes, void*) override;
#endif
  std::string name() override;

 private:
  void note(const char* call) const;
  void* take(std::size_t bytes);
  void give(void* data);
  void trace(c10::CachingDeviceAllocator::TraceEntry::Action action, void* data, std::size_t bytes);
  static void release(void* data);

  std::string name_;
  mutable std::mutex mutex_;
  mutable std::vector<std::string> calls_;
  std::map<const void*, Block> blocks_;
  std::vector<c10::CachingDeviceAllocator::AllocatorTraceTracker> trackers_;
};

/// The slot. A program that names the variable itself would get a copy of it.
std::atomic<c10::cuda::CUDACachingAllocator::CUDAAllocator*>& fake_slot();

}  // namespace lowtide::cuda
