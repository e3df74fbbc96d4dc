#pragma once

#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "cuda/slot.h"
#include "device/allocation.h"

namespace lowtide::cuda {

/// Stands in LibTorch's slot before the caching allocator, and hands every call on to it, except
/// the requests of threads that a source serves (ServedThread). All else is as without it: memory
/// that the caching allocator gave out stays its own, with its release, so recordStream() and the
/// capture of graphs work.
class AllocatorProxy final : public CUDAAllocator {
 public:
  /// The only one of the process. Does not put it into the slot. Throws InputError where there is
  /// no caching allocator to stand before.
  static AllocatorProxy& instance();

  CUDAAllocator& native() const { return native_; }
  /// From the caching allocator, whatever serves this thread. recordStream() knows such memory: the
  /// proxy is in the slot until it is released.
  device::MemorySource::Grant from_native(std::size_t bytes);

  /// While it lives, the proxy is in the slot. It stays there as long as there is memory that it
  /// alone knows. Throws InputError when another allocator is there.
  class InSlot {
   public:
    InSlot();
    ~InSlot();
    InSlot(const InSlot&) = delete;
    InSlot& operator=(const InSlot&) = delete;
  };

  c10::DataPtr allocate(std::size_t bytes) override;
  void* raw_alloc(std::size_t bytes) override;
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override;
  void raw_delete(void* data) override;
  void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) override;
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override;

  // Handed on.
  bool is_simple_data_ptr(const c10::DataPtr& data) const override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t count) const override;
  bool initialized() override;
  void emptyCache(c10::MempoolId_t pool) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override;
  void init(int device_count) override;
  double getMemoryFraction(c10::DeviceIndex device) override;
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override;
  std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex device) override;
  void enable(bool value) override;
  bool isEnabled() const override;
  void cacheInfo(c10::DeviceIndex device, std::size_t* largest) override;
  void* getBaseAllocation(void* data, std::size_t* bytes) override;
  c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot(c10::MempoolId_t pool,
                                                         bool with_traces) override;
  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool) override;
#if LOWTIDE_TORCH_SINCE(13)
  void markCaptureBegin(c10::DeviceIndex device) override;
  void markCaptureEnd(c10::DeviceIndex device) override;
#endif
  void releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) override;
  int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool) override;
  void createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                          std::shared_ptr<CUDAAllocator> allocator) override;
  void setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t pool, bool use) override;
  void setNoSplit(c10::DeviceIndex device, c10::MempoolId_t pool) override;
  bool checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override;
  c10::cuda::CUDACachingAllocator::ShareableHandle shareIpcHandle(void* data) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
  bool isHistoryEnabled() override;
#if LOWTIDE_TORCH_SINCE(12)
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* data) override;
#endif
  void recordHistory(bool enabled, c10::CachingDeviceAllocator::CreateContextFn recorder,
                     std::size_t most_entries, c10::CachingDeviceAllocator::RecordContext when,
                     bool clear, const std::vector<std::string>& skipped) override;
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& entries) override;
  void pushCompileContext(std::string& text) override;
  void popCompileContext() override;
#if LOWTIDE_TORCH_SINCE(14)
  bool supportsUserMetadata() override;
  void annotateMemory(const void* data, const std::string& text) override;
#endif
  void setUserMetadata(const std::string& text) override;
  std::string getUserMetadata() override;
  void attachOutOfMemoryObserver(
      c10::cuda::CUDACachingAllocator::OutOfMemoryObserver observer) override;
#if LOWTIDE_TORCH_SINCE(12)
  void attachOomRejectionObserver(
      c10::cuda::CUDACachingAllocator::OomRejectionObserver observer) override;
#endif
  void attachAllocatorTraceTracker(
      c10::CachingDeviceAllocator::AllocatorTraceTracker tracker) override;
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex accessed) override;
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device,
                          std::size_t count, cudaStream_t stream, bool p2p_enabled) override;
  std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> getCheckpointState(
      c10::DeviceIndex device, c10::MempoolId_t pool) override;
  c10::cuda::CUDACachingAllocator::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex device,
      std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state) override;
#if LOWTIDE_TORCH_SINCE(13)
  c10::DataPtr allocateWithAddress(std::size_t bytes, void* address) override;
#endif
  std::string name() override;

 private:
  using Releases = std::unordered_map<const void*, device::MemorySource::Release>;

  explicit AllocatorProxy(CUDAAllocator& native) : native_(native) {}
  static AllocatorProxy* create();

  void add_user();
  void remove_user();
  // With the mutex locked:
  void enter_slot();
  void leave_slot_if_unused();
  void* served_raw(device::MemorySource& source, std::size_t bytes);
  device::MemorySource::Release take_raw(void* data);
  bool gave_from_native(const void* data);
  static void release_to_native(void* data);

  CUDAAllocator& native_;
  std::mutex mutex_;
  int users_ = 0;  ///< of the slot
  Releases raw_;   ///< of addresses of sources whose callers keep nothing else
  std::unordered_set<const void*> from_native_;
};

}  // namespace lowtide::cuda
