#include "cuda/allocator_proxy.h"

#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "base/error.h"
#include "cuda/served_thread.h"
#include "device/allocation_recorder.h"
#include "device/planned_source.h"
#include "fake_c10_cuda.h"
#include "fake_gpu.h"

namespace lowtide::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

FakeNative& native() { return FakeNative::instance(); }
CUDAAllocator* in_slot() { return fake_slot().load(); }

c10::Stream main_stream() { return stream_of(0, 0); }

c10::DataPtr ask(std::size_t bytes) { return in_slot()->allocate(bytes); }

/// Two addresses of an arena and a reserve, for the requests of an op.
class Served : public ::testing::Test {
 protected:
  device::PlannedSource source_{{room_ + 2048, 1024, 2048}, nullptr, 512};
  std::array<device::Slot, 2> slots_{device::Slot{room_ + 1024, 512, 1024},
                                     device::Slot{room_, 512, 0}};
  void SetUp() override {
    source_.begin(slots_);
    AllocatorProxy::instance();  // asks the native allocator who it is, once
    native().forget_calls();
  }
  alignas(512) static inline std::byte room_[4096];
};

TEST_F(Served, TheKthRequestGetsTheKthAddress) {
  const std::size_t before = native().live_blocks();
  {
    const AllocatorProxy::InSlot proxy;
    const ServedThread served(source_, main_stream());
    const c10::DataPtr first = ask(512), second = ask(100);
    EXPECT_EQ(first.get(), room_ + 1024);
    EXPECT_EQ(second.get(), room_);
    EXPECT_EQ(first.device(), c10::Device(c10::DeviceType::CUDA, 0));
  }
  EXPECT_EQ(native().live_blocks(), before);
  EXPECT_THAT(native().calls(), IsEmpty());
}

TEST_F(Served, TooLargeAndTooManyRequestsAreOverruns) {
  const AllocatorProxy::InSlot proxy;
  const ServedThread served(source_, main_stream());
  EXPECT_EQ(ask(513).get(), room_ + 2048);
  EXPECT_EQ(ask(512).get(), room_);
  EXPECT_THROW(ask(100), Error) << "513 bytes take the whole reserve at multiples of 512";
  EXPECT_EQ(source_.overrun_bytes(), 513);
}

TEST_F(Served, RawRequestsAreServedAndTakenBack) {
  const AllocatorProxy::InSlot proxy;
  void* foreign = in_slot()->raw_alloc(64);
  {
    const ServedThread served(source_, main_stream());
    void* const first = in_slot()->raw_alloc(100);
    void* const second = in_slot()->raw_alloc_with_stream(100, nullptr);
    EXPECT_EQ(first, room_ + 1024);
    EXPECT_EQ(second, room_);
    native().forget_calls();
    in_slot()->raw_delete(first);
    in_slot()->raw_delete(second);
    EXPECT_THAT(native().calls(), IsEmpty());
    in_slot()->raw_delete(foreign);
    EXPECT_THAT(native().calls(), ElementsAre("raw_delete"));
    EXPECT_THROW(in_slot()->raw_delete(first), c10::Error) << "it was taken back before";
  }
}

TEST_F(Served, RawMemoryOutlivesTheStep) {
  void* raw = nullptr;
  {
    const AllocatorProxy::InSlot proxy;
    const ServedThread served(source_, main_stream());
    raw = in_slot()->raw_alloc(100);
  }
  EXPECT_NE(in_slot(), &native()) << "the proxy knows the address, so it stays";
  native().forget_calls();
  in_slot()->raw_delete(raw);
  EXPECT_THAT(native().calls(), IsEmpty());
  EXPECT_EQ(in_slot(), &native());
}

TEST_F(Served, EmptyRequestsAreNone) {
  const AllocatorProxy::InSlot proxy;
  const ServedThread served(source_, main_stream());
  EXPECT_EQ(ask(0).get(), nullptr);
  EXPECT_EQ(in_slot()->raw_alloc(0), nullptr);
  EXPECT_EQ(in_slot()->raw_alloc_with_stream(0, nullptr), nullptr);
  EXPECT_EQ(source_.requests(), 0);
}

TEST_F(Served, OtherThreadsAreNotServed) {
  const AllocatorProxy::InSlot proxy;
  const ServedThread served(source_, main_stream());
  std::thread([] { EXPECT_EQ(ask(100).get_deleter(), native().raw_deleter()); }).join();
  EXPECT_EQ(source_.requests(), 0);
}

TEST_F(Served, OtherStreamsAndDevicesAreNotServed) {
  const AllocatorProxy::InSlot proxy;
  const ServedThread served(source_, main_stream());
  {
    const c10::StreamGuard guard(stream_of(0, 7));
    EXPECT_EQ(ask(100).get_deleter(), native().raw_deleter());
    in_slot()->raw_delete(in_slot()->raw_alloc(100));
  }
  {
    const c10::DeviceGuard guard(c10::Device(c10::DeviceType::CUDA, 1));
    EXPECT_EQ(ask(100).get_deleter(), native().raw_deleter());
  }
  auto* const other = reinterpret_cast<cudaStream_t>(std::intptr_t{7});
  in_slot()->raw_delete(in_slot()->raw_alloc_with_stream(100, other));
  EXPECT_EQ(source_.requests(), 0);
  EXPECT_EQ(ask(100).get(), room_ + 1024) << "the k-th request of the served stream";
}

TEST_F(Served, Nests) {
  device::PlannedSource inner({});
  const std::array slots{device::Slot{room_ + 3072, 512, 3072}};
  inner.begin(slots);
  const AllocatorProxy::InSlot proxy;
  const ServedThread served(source_, main_stream());
  {
    const ServedThread nested(inner, main_stream());
    EXPECT_EQ(ask(100).get(), room_ + 3072);
  }
  EXPECT_EQ(ask(100).get(), room_ + 1024);
}

TEST_F(Served, AChildProcessIsNotServed) {
  const AllocatorProxy::InSlot proxy;
  const ServedThread served(source_, main_stream());
  const pid_t child = fork();
  if (child == 0) {
    const bool natively = ask(100).get_deleter() == native().raw_deleter();
    void* const raw = in_slot()->raw_alloc(100);
    in_slot()->raw_delete(raw);
    _exit(natively && source_.requests() == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ask(100).get(), room_ + 1024) << "the parent is served as before";
}

TEST_F(Served, AForkDuringOtherThreadsCallsEnds) {
  const AllocatorProxy::InSlot proxy;
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    const ServedThread served(source_, main_stream());
    while (!stop) {
      source_.begin(slots_);
      in_slot()->raw_delete(in_slot()->raw_alloc(100));
    }
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a lock that nobody gives back ends the child by a signal
      AllocatorProxy::instance().raw_delete(nullptr);
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  busy.join();
}

TEST_F(Served, GraphsAreCapturedAsWithoutIt) {
  const AllocatorProxy::InSlot proxy;
  const ServedThread served(source_, main_stream());
  in_slot()->beginAllocateToPool(0, {1, 0}, [](cudaStream_t) { return true; });
  in_slot()->endAllocateToPool(0, {1, 0});
  EXPECT_THAT(native().calls(), ElementsAre("beginAllocateToPool", "endAllocateToPool"));
}

TEST_F(Served, RecordStreamKnowsTheCachingAllocatorsMemoryAlone) {
  const AllocatorProxy::InSlot proxy;
  const c10::cuda::CUDAStream side(stream_of(0, 7));
  const c10::DataPtr before = ask(100);
  in_slot()->recordStream(before, side);
  EXPECT_THAT(native().streams_of(before.get()), ElementsAre(7));

  const ServedThread served(source_, main_stream());
  in_slot()->recordStream(ask(100), side.unwrap());  // of the arena: no effect, and no error
  EXPECT_THAT(native().streams_of(before.get()), ElementsAre(7));
}

/// Results of a step in the caller's memory, and what a step takes beyond its plan.
TEST_F(Served, RecordStreamKnowsWhatSourcesTookFromTheCachingAllocator) {
  const c10::cuda::CUDAStream side(stream_of(0, 7));
  const device::MemorySource::Grant grant = AllocatorProxy::instance().from_native(100);
  {
    const AllocatorProxy::InSlot a_step;
  }
  {
    const c10::DataPtr memory(grant.data, grant.data, [](void*) {}, main_stream().device());
    in_slot()->recordStream(memory, side);
  }
  EXPECT_THAT(native().streams_of(grant.data), ElementsAre(7));
  EXPECT_NE(in_slot(), &native());
  grant.release(grant.data);
  EXPECT_THAT(native().calls(), ::testing::Contains("raw_delete"));
  EXPECT_EQ(in_slot(), &native());
}

TEST(InSlot, IsThereWhileOneNeedsIt) {
  EXPECT_EQ(in_slot(), &native());
  {
    const AllocatorProxy::InSlot first;
    EXPECT_EQ(in_slot(), &AllocatorProxy::instance());
    {
      const AllocatorProxy::InSlot second;
    }
    EXPECT_EQ(in_slot(), &AllocatorProxy::instance());
  }
  EXPECT_EQ(in_slot(), &native());
}

TEST(InSlot, MemoryOutlivesItsComingAndGoing) {
  const std::size_t before = native().live_blocks();
  c10::DataPtr first = ask(100), second;
  void* raw = nullptr;
  {
    const AllocatorProxy::InSlot proxy;
    first.clear();
    second = ask(100);
    raw = in_slot()->raw_alloc(100);
  }
  second.clear();
  in_slot()->raw_delete(raw);
  EXPECT_EQ(native().live_blocks(), before);
}

TEST(InSlot, ComesAndGoesWhileThreadsAllocate) {
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) in_slot()->raw_delete(in_slot()->raw_alloc(100));
  });
  for (int i = 0; i < 2000; ++i) const AllocatorProxy::InSlot proxy;
  stop = true;
  busy.join();
  EXPECT_EQ(in_slot(), &native());
}

/// Puts another allocator into the slot, and back at the end.
class Another {
 public:
  explicit Another(CUDAAllocator* allocator) : before_(fake_slot().exchange(allocator)) {}
  ~Another() { fake_slot() = before_; }

 private:
  CUDAAllocator* before_;
};

TEST(InSlot, RefusesAnotherAllocator) {
  AllocatorProxy::instance();
  static FakeNative pluggable("pluggable");
  const Another another(&pluggable);
  EXPECT_THAT(
      [] { const AllocatorProxy::InSlot proxy; },
      ThrowsMessage<InputError>(AllOf(HasSubstr("from the allocator \"pluggable\""),
                                      HasSubstr("use the plan as a policy for checkpointing"))));
  EXPECT_EQ(in_slot(), &pluggable);
}

TEST(InSlot, RefusesASecondCachingAllocator) {
  AllocatorProxy::instance();
  static FakeNative second;
  const Another another(&second);
  EXPECT_THAT(
      [] { const AllocatorProxy::InSlot proxy; },
      ThrowsMessage<InputError>(HasSubstr("installed in this process after the first step")));
  EXPECT_EQ(in_slot(), &second);
}

TEST(InSlot, LeavesAnAllocatorThatCameMeanwhile) {
  static FakeNative pluggable("pluggable");
  {
    const AllocatorProxy::InSlot proxy;
    fake_slot() = &pluggable;
  }
  EXPECT_EQ(in_slot(), &pluggable);
  fake_slot() = &native();
}

}  // namespace
}  // namespace lowtide::cuda
