#include <c10/core/CPUAllocator.h>

#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "device/allocation_recorder.h"
#include "device/device.h"
#include "device/each_device.h"
#include "device/planned_source.h"
#include "device/replayed_draw.h"

// What any device has to do for the executor and the profiler.
namespace lowtide::device {
namespace {

class DeviceContract : public OnEachDevice {
 protected:
  at::Tensor bytes_of(const std::shared_ptr<std::byte>& block, Bytes bytes) const {
    return at::for_blob(block.get(), {bytes})
        .options(options(at::kByte))
        .target_device(device().torch_device())
        .deleter([block](void*) {})
        .make_tensor();
  }
  std::vector<std::byte> saved_generator() const {
    std::vector<std::byte> state(static_cast<std::size_t>(device().generator_state_bytes()));
    device().save_generator(state.data());
    return state;
  }
};

ON_EACH_DEVICE(DeviceContract);

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 64 == 0; }

TEST_P(DeviceContract, HasANameAndAPlace) {
  EXPECT_FALSE(device().name().empty());
  EXPECT_EQ(at::empty({1}, options()).device().type(), device().torch_device().type());
  EXPECT_EQ(&device_of(device().torch_device()), &device());
}

TEST_P(DeviceContract, BlocksAreAlignedAndZeroAlsoWhereOthersWrote) {
  std::mt19937 random(3);
  for (int i = 0; i < 30; ++i) {
    const Bytes bytes = 1 + static_cast<Bytes>(random() % 100000);
    const auto block = device().allocate_block(bytes);
    EXPECT_TRUE(is_aligned(block.get()));
    const at::Tensor all = bytes_of(block, bytes);
    EXPECT_EQ(all.count_nonzero().item<std::int64_t>(), 0);
    all.fill_(7);
  }
}

TEST_P(DeviceContract, BlocksDoNotShareBytes) {
  const auto one = device().allocate_block(5000), other = device().allocate_block(5000);
  bytes_of(one, 5000).fill_(1);
  bytes_of(other, 5000).fill_(2);
  EXPECT_TRUE(bytes_of(one, 5000).eq(1).all().item<bool>());
}

TEST_P(DeviceContract, ScratchIsAlignedAndCountedWhileItLives) {
  const AllocationCounters& counters = device().count_allocations();
  const Bytes before = counters.taken.now();
  {
    const auto scratch = device().allocate_scratch(100000);
    EXPECT_TRUE(is_aligned(scratch.get()));
    EXPECT_EQ(counters.taken.now(), before + 100000);
    EXPECT_TRUE(bytes_of(scratch, 100000).fill_(3).eq(3).all().item<bool>());
  }
  EXPECT_EQ(counters.taken.now(), before);
}

TEST_P(DeviceContract, AnEmptyRequestGetsAnAddress) {
  EXPECT_NE(device().allocate_block(0), nullptr);
  EXPECT_NE(device().allocate_scratch(0), nullptr);
}

TEST_P(DeviceContract, ABlockThatIsTooLargeIsRefused) {
  EXPECT_ANY_THROW(device().allocate_block(std::numeric_limits<Bytes>::max() / 2));
}

TEST_P(DeviceContract, ThePeaksOfCountersStartAgain) {
  const AllocationCounters& counters = device().count_allocations();
  {
    const at::Tensor large = at::empty({100000}, options(at::kByte));
  }
  EXPECT_GE(counters.taken.peak() - counters.taken.now(), 100000);
  device().reset_allocation_peaks();
  EXPECT_EQ(counters.taken.peak(), counters.taken.now());
  EXPECT_EQ(counters.unserved.peak(), counters.unserved.now());
}

TEST_P(DeviceContract, CountersTellServedRequestsFromOthers) {
  const AllocationCounters& counters = device().count_allocations();
  AllocationRecorder source(device().system());
  device().serve(source, source);  // the first time takes what lasts
  const Bytes unserved = counters.unserved.now(), taken = counters.taken.now();
  const at::Tensor own = at::empty({1000}, options(at::kByte));
  EXPECT_EQ(counters.unserved.now(), unserved + 1000);
  const auto serving = device().serve(source, source);
  const at::Tensor served = at::empty({500}, options(at::kByte));
  EXPECT_EQ(counters.unserved.now(), unserved + 1000);
  EXPECT_EQ(counters.taken.now(), taken + 1500);
}

TEST_P(DeviceContract, ASourceSeesRequestsAndReleasesInOrder) {
  AllocationRecorder recorder(device().system());
  const auto serving = device().serve(recorder, recorder);
  {
    const at::Tensor a = at::ones({100}, options());
    {
      const at::Tensor b = at::ones({50}, options());
    }
    const at::Tensor c = at::ones({25}, options());
    EXPECT_EQ(recorder.live_bytes(), 500);
  }
  const auto requests = recorder.requests();
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_EQ(requests[0].bytes, 400);
  EXPECT_EQ(requests[1].bytes, 200);
  EXPECT_LE(requests[1].end, requests[2].begin);
  EXPECT_GT(requests[0].end, requests[2].begin);
  EXPECT_EQ(recorder.peak_bytes(), 600);
  EXPECT_EQ(recorder.live_bytes(), 0);
}

TEST_P(DeviceContract, MemoryOutlivesItsSource) {
  at::Tensor x;
  {
    AllocationRecorder recorder(device().system());
    const auto serving = device().serve(recorder, recorder);
    x = at::full({10}, 2.0, options());
  }
  EXPECT_EQ(x.sum().item<float>(), 20.0F);
}

TEST_P(DeviceContract, ASourceServesTheScratchMemoryOfConvolutions) {
  const at::Tensor x = here(at::ones({2, 8, 16, 16})), w = here(at::ones({8, 8, 3, 3}));
  AllocationRecorder recorder(device().system());
  at::Tensor y;
  {
    const auto serving = device().serve(recorder, recorder);
    y = at::conv2d(x, w, {}, 1, 1);
  }
  const bool needs_some = !device().torch_device().is_cuda();
  EXPECT_GE(recorder.peak_bytes(), static_cast<Bytes>(y.nbytes()) + (needs_some ? 1 : 0));
  EXPECT_EQ(recorder.live_bytes(), static_cast<Bytes>(y.nbytes()));
  EXPECT_TRUE(at::allclose(y.cpu(), at::conv2d(x.cpu(), w.cpu(), {}, 1, 1)));
}

TEST_P(DeviceContract, APlanServesTheKthRequestAtItsAddress) {
  const auto block = device().allocate_block(4096);
  const at::Tensor x = here(at::arange(64, at::kFloat));
  const std::vector<Slot> slots = {{.data = block.get() + 2048, .bytes = 256},
                                   {.data = block.get() + 1024, .bytes = 256}};
  PlannedSource source({});
  source.begin(slots);
  const auto serving = device().serve(source, source);
  const at::Tensor y = x.neg(), z = x.abs();
  EXPECT_EQ(y.const_data_ptr(), block.get() + 2048);
  EXPECT_EQ(z.const_data_ptr(), block.get() + 1024);
  EXPECT_THROW(x.neg(), Error) << "the plan has no third request";
}

TEST_P(DeviceContract, OtherThreadsGoToTheSystem) {
  AllocationRecorder recorder(device().system());
  const auto serving = device().serve(recorder, recorder);
  std::thread([this] { at::ones({1000}, options()); }).join();
  EXPECT_EQ(recorder.count(), 0);
}

TEST_P(DeviceContract, ServingNests) {
  AllocationRecorder outer(device().system()), inner(device().system());
  const auto first = device().serve(outer, outer);
  {
    const auto second = device().serve(inner, inner);
    at::ones({10}, options());
  }
  at::ones({10}, options());
  EXPECT_EQ(outer.count(), 1);
  EXPECT_EQ(inner.count(), 1);
}

TEST_P(DeviceContract, TheSystemServesPastASource) {
  AllocationRecorder recorder(device().system());
  const auto serving = device().serve(recorder, recorder);
  const MemorySource::Grant grant = device().system().allocate(1000);
  EXPECT_TRUE(is_aligned(grant.data));
  grant.release(grant.data);
  EXPECT_EQ(recorder.count(), 0);
}

TEST_P(DeviceContract, ASavedGeneratorDrawsTheSameNumbersAgain) {
  generator().set_current_seed(4);
  at::randn({3}, options());
  const std::vector<std::byte> saved = saved_generator();
  const at::Tensor first = at::randn({7}, options()), second = at::randn({7}, options());
  device().restore_generator(saved.data());
  EXPECT_TRUE(at::equal(at::randn({7}, options()), first));
  EXPECT_EQ(saved_generator().size(), saved.size());
  EXPECT_TRUE(at::equal(at::randn({7}, options()), second));
}

TEST_P(DeviceContract, AReplayedDrawLeavesTheGeneratorAsItWas) {
  const std::vector<std::byte> saved = saved_generator();
  std::vector<std::byte> present(saved.size());
  const at::Tensor first = at::randn({7}, options()), second = at::randn({7}, options());
  device().restore_generator(saved.data());
  at::randn({7}, options());
  {
    const ReplayedDraw draw(device(), saved.data(), present.data());
    EXPECT_TRUE(at::equal(at::randn({7}, options()), first));
  }
  EXPECT_TRUE(at::equal(at::randn({7}, options()), second));
}

TEST_P(DeviceContract, AfterSynchronizeTheHostSeesAllWork) {
  const bool is_host = device().is_host_memory();
  at::Tensor onto = at::empty({1000}, at::TensorOptions().pinned_memory(!is_host));
  for (int value = 0; value < 10; ++value) {
    onto.copy_(at::full({1000}, value, options()), /*non_blocking=*/true);
    device().synchronize();
    EXPECT_TRUE(onto.eq(value).all().item<bool>()) << value;
  }
}

}  // namespace
}  // namespace lowtide::device
