#include "simulated/simulated_device.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "base/error.h"
#include "device/each_device.h"
#include "simulated/backend.h"
#include "simulated/state.h"

namespace lowtide::simulated {
namespace {

using device::kSimulatedBytes;

const device::ComputeDevice& installed() { return device::installed_simulated(); }

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
  const at::Tensor x = at::ones({64, 64}).to(installed().torch_device());
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
  const at::Tensor held = at::zeros({1 << 20}, at::kByte).to(kDevice);
  EXPECT_EQ(installed().memory().free, before.free - (1 << 20));
}

TEST(SimulatedDevice, InstallsOnce) {
  installed();
  EXPECT_THROW(install({.bytes = 1}), InputError);
}

TEST(SimulatedDevice, ABlockTakesMemoryOfTheDeviceWhileItLives) {
  const Bytes before = (installed(), state().memory.free_bytes());
  {
    const auto block = installed().allocate_block(1000);
    EXPECT_EQ(state().memory.free_bytes(), before - 1024);
    EXPECT_TRUE(state().memory.on_device(block.get()));
  }
  EXPECT_EQ(state().memory.free_bytes(), before);
}

TEST(SimulatedDevice, AStateOfTheGeneratorMayLieInTheDevicesMemory) {
  const auto saved = installed().allocate_block(installed().generator_state_bytes());
  const at::TensorOptions options = at::TensorOptions(installed().torch_device());
  installed().save_generator(saved.get());
  const at::Tensor first = at::randn({7}, options);
  installed().restore_generator(saved.get());
  EXPECT_TRUE(at::equal(at::randn({7}, options).cpu(), first.cpu()));
}

TEST(SimulatedDevice, TooLargeABlockIsRefused) {
  EXPECT_THROW(installed().allocate_block(kSimulatedBytes + 1), c10::OutOfMemoryError);
}

}  // namespace
}  // namespace lowtide::simulated
