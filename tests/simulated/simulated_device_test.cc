#include "simulated/simulated_device.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

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
