#include "device/allocation.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "device/allocation_recorder.h"
#include "device/planned_source.h"

namespace lowtide::device {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Serving, WorkersOfParallelKernelsAreServedApart) {
  // How compiled kernels enter a parallel region; this file is compiled without OpenMP.
  using Enter = void (*)(void (*)(void*), void*, unsigned, unsigned);
  const auto enter = reinterpret_cast<Enter>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  ASSERT_NE(enter, nullptr);
  AllocationRecorder own;
  AllocationRecorder workers;
  {
    const Serving serving(own);
    const ServingWorkers serving_workers(workers);
    enter([](void*) { at::empty({100}); }, nullptr, 2, 0);
  }
  EXPECT_EQ(own.count(), 1);
  EXPECT_EQ(workers.count(), 1);
}

TEST(Serving, AddressesAloneAreReleasedWhereTheyBelong) {
  c10::Allocator& before = *c10::GetCPUAllocator();
  void* const old = before.raw_allocate(100);
  AllocationRecorder recorder;
  {
    const Serving serving(recorder);
    c10::Allocator& now = *c10::GetCPUAllocator();
    void* const data = now.raw_allocate(1000);
    now.raw_deallocate(old);
    EXPECT_EQ(recorder.live_bytes(), 1000);
    now.raw_deallocate(data);
  }
  EXPECT_EQ(recorder.live_bytes(), 0);
}

class PlannedSourceTest : public ::testing::Test {
 protected:
  alignas(64) std::byte room_[1024];
};

TEST_F(PlannedSourceTest, OverrunsLieAtMultiplesOfTheAlignment) {
  PlannedSource source({room_, 1024}, nullptr, 512);
  source.begin({});
  EXPECT_EQ(source.allocate(1).data, room_);
  EXPECT_EQ(source.allocate(1).data, room_ + 512);
  EXPECT_THROW(source.allocate(1), Error);
}

TEST_F(PlannedSourceTest, ServesTheKthRequestFromTheKthSlot) {
  PlannedSource source({});
  const std::array slots{Slot{room_ + 128, 64, 128}, Slot{room_, 64, 0}};
  source.begin(slots);
  EXPECT_EQ(source.allocate(64).data, room_ + 128);
  EXPECT_EQ(source.allocate(10).data, room_);
  EXPECT_EQ(source.highest(), 192);
  EXPECT_EQ(source.requests(), 2);
}

TEST_F(PlannedSourceTest, RefusesWhatWasNotPlanned) {
  PlannedSource source({});
  const std::array slots{Slot{room_, 64}};
  source.begin(slots);
  EXPECT_THAT([&] { source.allocate(65); },
              ThrowsMessage<Error>(HasSubstr("65 bytes in request 1, where its profile has 64")));
  EXPECT_THAT([&] { source.allocate(8); }, ThrowsMessage<Error>(HasSubstr("has 0")));
}

TEST_F(PlannedSourceTest, TakesOverrunsFromTheReserveUntilItIsUsedUp) {
  PlannedSource source({room_ + 512, 128});
  source.begin({});
  EXPECT_EQ(source.allocate(60).data, room_ + 512);
  EXPECT_EQ(source.allocate(60).data, room_ + 576);
  EXPECT_EQ(source.overrun_bytes(), 124);
  EXPECT_THAT([&] { source.allocate(1); }, ThrowsMessage<Error>(HasSubstr("reserve")));
  source.begin({});
  EXPECT_EQ(source.allocate(60).data, room_ + 512);
}

/// Serves no memory and counts requests.
class Beyond final : public MemorySource {
 public:
  Grant allocate(std::size_t bytes) override {
    bytes_ += static_cast<Bytes>(bytes);
    return {nullptr, [](void*) {}};
  }
  Bytes bytes() const { return bytes_; }

 private:
  Bytes bytes_ = 0;
};

TEST_F(PlannedSourceTest, GivesNoPlannedScratchToAnOpThatStrays) {
  Beyond beyond;
  PlannedSource source({}, &beyond);
  const std::array slots{Slot{.data = room_, .bytes = 64, .scratch = true},
                         Slot{.data = room_, .bytes = 64, .scratch = true}};
  source.begin(slots);
  source.allocate(32);
  source.allocate(64);
  EXPECT_EQ(beyond.bytes(), 96);
  EXPECT_EQ(source.overrun_bytes(), 96);
  source.begin(slots);
  EXPECT_EQ(source.allocate(64).data, room_);
  EXPECT_EQ(source.overrun_bytes(), 0);
}

}  // namespace
}  // namespace lowtide::device
