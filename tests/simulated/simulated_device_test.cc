#include "simulated/simulated_device.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "base/error.h"
#include "device/planned_source.h"
#include "device/replayed_draw.h"
#include "simulated/backend.h"
#include "simulated/state.h"

namespace lowtide::simulated {
namespace {

const device::ComputeDevice& installed() {
  if (!is_installed()) install({.bytes = Bytes{64} << 20, .late = true, .seed = 1});
  return simulated_device();
}

/// Gives what is asked for one after the other in a block.
class Sequence final : public device::MemorySource {
 public:
  explicit Sequence(std::shared_ptr<std::byte> block) : block_(std::move(block)) {}
  Grant allocate(std::size_t bytes) override {
    sizes.push_back(static_cast<Bytes>(bytes));
    std::byte* const data = block_.get() + used_;
    used_ += align_up(static_cast<Bytes>(bytes), 64);
    return {data, &device::keep};
  }
  bool contains(const at::Tensor& tensor) const {
    const auto* const data = static_cast<const std::byte*>(tensor.const_data_ptr());
    return data >= block_.get() && data < block_.get() + used_;
  }
  std::vector<Bytes> sizes;

 private:
  std::shared_ptr<std::byte> block_;
  Bytes used_ = 0;
};

at::Tensor on_device(const at::Tensor& tensor) {
  return tensor.to(simulated_device().torch_device());
}

TEST(SimulatedDevice, IsRefusedBeforeItIsInstalled) {
  if (is_installed()) GTEST_SKIP() << "another test of this process installed it";
  EXPECT_THROW(simulated_device(), Error);
}

TEST(SimulatedDevice, HasANameAndAPlace) {
  EXPECT_NE(installed().name().find("simulated device of 64.0 MiB"), std::string::npos)
      << installed().name();
  EXPECT_EQ(installed().torch_device(), at::Device(at::kPrivateUse1, 0));
}

/// The host's time between two events that it waited for is within that between the events, and
/// that is within the host's time around them.
TEST(SimulatedDevice, EventsMeasureNoLessThanTheWorkBetweenThem) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  const at::Tensor x = on_device(at::ones({64, 64}));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    reseed(seed);
    const std::unique_ptr<device::WorkTimer> timer = installed().work_timer();
    const auto before = Clock::now();
    timer->start();
    state().streams.finish_all();
    const auto from = Clock::now();
    const at::Tensor y = x.matmul(x);
    const auto to = Clock::now();
    timer->stop();
    const device::WorkTimer::Times times = timer->times();
    const auto after = Clock::now();
    EXPECT_GE(times.work_seconds, seconds(from, to)) << seed;
    EXPECT_LE(times.work_seconds, seconds(before, after)) << seed;
    EXPECT_GE(times.launch_seconds, seconds(from, to)) << seed;
    EXPECT_LE(times.launch_seconds, seconds(before, after)) << seed;
  }
}

TEST(SimulatedDevice, KnowsItsFreeMemory) {
  const device::DeviceMemory before = installed().memory();
  EXPECT_EQ(before.total, Bytes{64} << 20);
  const at::Tensor held = on_device(at::zeros({1 << 20}, at::kByte));
  EXPECT_EQ(installed().memory().free, before.free - (1 << 20));
}

TEST(SimulatedDevice, InstallsOnce) {
  installed();
  EXPECT_THROW(install({.bytes = 1}), InputError);
}

TEST(SimulatedDevice, BlocksAreZeroAndReleased) {
  const Bytes before = (installed(), state().memory.free_bytes());
  {
    const auto block = installed().allocate_block(1000);
    EXPECT_EQ(state().memory.free_bytes(), before - 1024);
    EXPECT_EQ(std::to_integer<int>(state().memory.to_host(block.get())[999]), 0);
  }
  EXPECT_EQ(state().memory.free_bytes(), before);
}

TEST(SimulatedDevice, ASourceServesTensorsAndScratch) {
  installed();
  const at::Tensor x = on_device(at::ones({2, 8, 16, 16}));
  const at::Tensor w = on_device(at::ones({8, 8, 3, 3}));
  const Bytes before = state().memory.free_bytes();
  Sequence source(installed().allocate_block(Bytes{8} << 20));
  Sequence unordered(installed().allocate_block(Bytes{8} << 20));
  at::Tensor y, z;
  {
    const auto serving = installed().serve(source, unordered);
    y = at::conv2d(x, w, {}, 1, 1);
    z = at::empty({10}, x.options()).fill_(2);
  }
  EXPECT_TRUE(source.contains(y));
  EXPECT_TRUE(source.contains(z));
  EXPECT_GT(source.sizes.size(), 2U) << "the convolution's scratch too";
  EXPECT_EQ(state().memory.free_bytes(), before - (Bytes{16} << 20));
  EXPECT_TRUE(at::equal(y.cpu(), at::conv2d(x.cpu(), w.cpu(), {}, 1, 1)));
  EXPECT_FALSE(source.contains(y + 1));
}

TEST(SimulatedDevice, APlannedSourceServesOpsAtTheirAddresses) {
  const auto block = installed().allocate_block(4096);
  const at::Tensor x = on_device(at::arange(64, at::kFloat));
  const std::vector<device::Slot> slots = {{.data = block.get() + 1024, .bytes = 256}};
  device::PlannedSource source({});
  source.begin(slots);
  const auto serving = installed().serve(source, source);
  const at::Tensor y = x.neg();
  EXPECT_EQ(y.const_data_ptr(), block.get() + 1024);
  EXPECT_THROW(x.neg(), Error) << "the plan has no second request";
}

TEST(SimulatedDevice, AReplayedDrawIsTheSame) {
  installed();
  const auto bytes = static_cast<std::size_t>(installed().generator_state_bytes());
  const auto saved = installed().allocate_block(installed().generator_state_bytes());
  std::vector<std::byte> present(bytes);
  const at::TensorOptions options = at::TensorOptions(installed().torch_device());
  installed().save_generator(saved.get());  // in the device's memory
  const at::Tensor first = at::randn({7}, options);
  const at::Tensor second = at::randn({7}, options);
  {
    const device::ReplayedDraw draw(installed(), saved.get(), present.data());
    EXPECT_TRUE(at::equal(at::randn({7}, options).cpu(), first.cpu()));
  }
  EXPECT_FALSE(at::equal(at::randn({7}, options).cpu(), second.cpu()));
}

TEST(SimulatedDevice, TooLargeABlockIsRefused) {
  EXPECT_THROW(installed().allocate_block(Bytes{65} << 20), c10::OutOfMemoryError);
}

}  // namespace
}  // namespace lowtide::simulated
