#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "cuda/allocator_proxy.h"
#include "fake_c10_cuda.h"
#include "fake_gpu.h"

namespace lowtide::cuda {
namespace {

using ::testing::ElementsAre;

struct Call {
  const char* name;
  void (*make)(CUDAAllocator& allocator);
};

alignas(512) std::byte memory[512];
std::string text = "text";

const Call kCalls[] = {
    {"allocate", [](CUDAAllocator& a) { a.allocate(8); }},
    {"is_simple_data_ptr", [](CUDAAllocator& a) { EXPECT_TRUE(a.is_simple_data_ptr({})); }},
    {"raw_deleter",
     [](CUDAAllocator& a) { EXPECT_EQ(a.raw_deleter(), FakeNative::instance().raw_deleter()); }},
    {"copy_data", [](CUDAAllocator& a) { a.copy_data(memory, memory + 8, 8); }},
    {"initialized", [](CUDAAllocator& a) { EXPECT_TRUE(a.initialized()); }},
    {"emptyCache", [](CUDAAllocator& a) { a.emptyCache({0, 0}); }},
    {"recordStream",
     [](CUDAAllocator& a) { a.recordStream({}, c10::cuda::CUDAStream(stream_of(0, 1))); }},
    {"recordStream", [](CUDAAllocator& a) { a.recordStream({}, stream_of(0, 1)); }},
    {"getDeviceStats", [](CUDAAllocator& a) { a.getDeviceStats(1); }},
    {"resetAccumulatedStats", [](CUDAAllocator& a) { a.resetAccumulatedStats(1); }},
    {"resetPeakStats", [](CUDAAllocator& a) { a.resetPeakStats(1); }},
    {"getMemoryInfo",
     [](CUDAAllocator& a) { EXPECT_EQ(a.getMemoryInfo(1), (std::pair<size_t, size_t>(7, 9))); }},
    {"raw_alloc", [](CUDAAllocator& a) { a.raw_alloc(0); }},
    {"raw_alloc_with_stream", [](CUDAAllocator& a) { a.raw_alloc_with_stream(0, nullptr); }},
    {"raw_delete", [](CUDAAllocator& a) { a.raw_delete(nullptr); }},
    {"init", [](CUDAAllocator& a) { a.init(2); }},
    {"getMemoryFraction", [](CUDAAllocator& a) { EXPECT_EQ(a.getMemoryFraction(1), 0.5); }},
    {"setMemoryFraction", [](CUDAAllocator& a) { a.setMemoryFraction(0.5, 1); }},
    {"getExpandableSegmentSizes", [](CUDAAllocator& a) { a.getExpandableSegmentSizes(1); }},
    {"enable", [](CUDAAllocator& a) { a.enable(true); }},
    {"isEnabled", [](CUDAAllocator& a) { EXPECT_TRUE(a.isEnabled()); }},
    {"cacheInfo",
     [](CUDAAllocator& a) {
       std::size_t largest = 0;
       a.cacheInfo(1, &largest);
       EXPECT_EQ(largest, 11U);
     }},
    {"getBaseAllocation",
     [](CUDAAllocator& a) {
       std::size_t bytes = 0;
       EXPECT_EQ(a.getBaseAllocation(memory, &bytes), memory);
       EXPECT_EQ(bytes, 13U);
     }},
    {"snapshot", [](CUDAAllocator& a) { a.snapshot({0, 0}, true); }},
    {"beginAllocateToPool",
     [](CUDAAllocator& a) { a.beginAllocateToPool(1, {1, 0}, [](cudaStream_t) { return true; }); }},
    {"endAllocateToPool", [](CUDAAllocator& a) { a.endAllocateToPool(1, {1, 0}); }},
#if LOWTIDE_TORCH_SINCE(13)
    {"markCaptureBegin", [](CUDAAllocator& a) { a.markCaptureBegin(1); }},
    {"markCaptureEnd", [](CUDAAllocator& a) { a.markCaptureEnd(1); }},
#endif
    {"releasePool", [](CUDAAllocator& a) { a.releasePool(1, {1, 0}); }},
    {"getPoolUseCount", [](CUDAAllocator& a) { EXPECT_EQ(a.getPoolUseCount(1, {1, 0}), 3); }},
    {"createOrIncrefPool", [](CUDAAllocator& a) { a.createOrIncrefPool(1, {1, 0}, nullptr); }},
    {"setUseOnOOM", [](CUDAAllocator& a) { a.setUseOnOOM(1, {1, 0}, true); }},
    {"setNoSplit", [](CUDAAllocator& a) { a.setNoSplit(1, {1, 0}); }},
    {"checkPoolLiveAllocations",
     [](CUDAAllocator& a) { EXPECT_TRUE(a.checkPoolLiveAllocations(1, {1, 0}, {})); }},
    {"shareIpcHandle", [](CUDAAllocator& a) { EXPECT_EQ(a.shareIpcHandle(memory).offset, 5); }},
    {"getIpcDevPtr", [](CUDAAllocator& a) { a.getIpcDevPtr("handle"); }},
    {"isHistoryEnabled", [](CUDAAllocator& a) { EXPECT_TRUE(a.isHistoryEnabled()); }},
#if LOWTIDE_TORCH_SINCE(12)
    {"getContextForPointer", [](CUDAAllocator& a) { a.getContextForPointer(memory); }},
#endif
    {"recordHistory",
     [](CUDAAllocator& a) {
       a.recordHistory(true, nullptr, 1, c10::CachingDeviceAllocator::RecordContext::NEVER, true,
                       {});
     }},
    {"recordAnnotation", [](CUDAAllocator& a) { a.recordAnnotation({}); }},
    {"pushCompileContext", [](CUDAAllocator& a) { a.pushCompileContext(text); }},
    {"popCompileContext", [](CUDAAllocator& a) { a.popCompileContext(); }},
#if LOWTIDE_TORCH_SINCE(14)
    {"supportsUserMetadata", [](CUDAAllocator& a) { EXPECT_TRUE(a.supportsUserMetadata()); }},
    {"annotateMemory", [](CUDAAllocator& a) { a.annotateMemory(memory, text); }},
#endif
    {"setUserMetadata", [](CUDAAllocator& a) { a.setUserMetadata(text); }},
    {"getUserMetadata", [](CUDAAllocator& a) { EXPECT_EQ(a.getUserMetadata(), "metadata"); }},
    {"attachOutOfMemoryObserver", [](CUDAAllocator& a) { a.attachOutOfMemoryObserver(nullptr); }},
#if LOWTIDE_TORCH_SINCE(12)
    {"attachOomRejectionObserver", [](CUDAAllocator& a) { a.attachOomRejectionObserver(nullptr); }},
#endif
    {"attachAllocatorTraceTracker",
     [](CUDAAllocator& a) {
       a.attachAllocatorTraceTracker([](const c10::CachingDeviceAllocator::TraceEntry&) {});
     }},
    {"enablePeerAccess", [](CUDAAllocator& a) { a.enablePeerAccess(0, 1); }},
    {"memcpyAsync",
     [](CUDAAllocator& a) {
       EXPECT_EQ(a.memcpyAsync(memory, 0, memory, 1, 8, nullptr, true), cudaErrorNotReady);
     }},
    {"getCheckpointState", [](CUDAAllocator& a) { a.getCheckpointState(1, {1, 0}); }},
    {"setCheckpointPoolState", [](CUDAAllocator& a) { a.setCheckpointPoolState(1, nullptr); }},
#if LOWTIDE_TORCH_SINCE(13)
    {"allocateWithAddress", [](CUDAAllocator& a) { a.allocateWithAddress(8, memory); }},
#endif
    {"name", [](CUDAAllocator& a) { EXPECT_EQ(a.name(), "native"); }},
};

TEST(ProxyCalls, EachIsHandedOn) {
  AllocatorProxy& proxy = AllocatorProxy::instance();
  for (const Call& call : kCalls) {
    SCOPED_TRACE(call.name);
    FakeNative::instance().forget_calls();
    call.make(proxy);
    ASSERT_FALSE(FakeNative::instance().calls().empty());
    EXPECT_EQ(FakeNative::instance().calls().front(), call.name);
  }
}

/// The place of a virtual function in the table of its class, by the ABI of C++ on Linux.
template <typename Function>
std::size_t place_of(Function function) {
  std::ptrdiff_t first = 0;
  std::memcpy(&first, &function, sizeof first);
  return static_cast<std::size_t>(first - 1) / sizeof(void*);
}

/// The functions of an object's class, those of its destructor excluded.
std::vector<const void*> functions_of(const CUDAAllocator& object) {
  const void* const* table = nullptr;
  std::memcpy(&table, static_cast<const void*>(&object), sizeof table);
  const std::size_t last = place_of(&CUDAAllocator::name);  // is declared last
  return std::vector<const void*>(table + 2, table + last + 1);
}

TEST(ProxyCalls, AreAllThatTheClassOfAllocatorsHas) {
  const std::vector<const void*> functions = functions_of(AllocatorProxy::instance());
  EXPECT_EQ(functions.size(), std::size(kCalls)) << "LibTorch's class has other functions now";
  static FakeNative inherits;
  const std::vector<const void*> others = functions_of(inherits);
  for (std::size_t i = 0; i < functions.size(); ++i) {
    EXPECT_NE(functions[i], others[i]) << "function " << i << " is inherited";
  }
}

}  // namespace
}  // namespace lowtide::cuda
