#include "device/host_place.h"

#include <deque>
#include <random>

#include "base/error.h"
#include "device/each_device.h"

namespace lowtide::device {
namespace {

constexpr Bytes kBytes = Bytes{1} << 16;

class HostPlaceTest : public OnEachDevice {
 protected:
  void SetUp() override {
    if (device().is_host_memory()) GTEST_SKIP() << "the host's own memory";
  }
  at::Tensor random_bytes(Bytes bytes) const {
    return at::randint(256, {bytes}, options(at::kByte));
  }
};

ON_EACH_DEVICE(HostPlaceTest);

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel())};
}

TEST_P(HostPlaceTest, GivesBackWhatItGot) {
  const HostPlace place(device());
  const auto store = place.open(kBytes);
  EXPECT_EQ(store->bytes(), kBytes);
  EXPECT_FALSE(store->serves_host_memory());
  EXPECT_EQ(store->buffer_bytes(), 0);
  at::Tensor value = random_bytes(1000);
  const at::Tensor expected = value.cpu();
  store->wait(store->write(77, bytes_of(value), "v"));
  value.zero_();
  const slower::Ticket read = store->read(77, bytes_of(value), "v");
  store->wait(read);
  EXPECT_TRUE(at::equal(value.cpu(), expected));
  EXPECT_TRUE(store->done(read));
  const slower::Counters moved = store->counters();
  EXPECT_EQ(moved.bytes_out, 1000);
  EXPECT_EQ(moved.bytes_in, 1000);
  EXPECT_GE(moved.copy_seconds, 0);
  EXPECT_GE(moved.wait_seconds, 0);
}

/// Values are overwritten as soon as their copy has been waited for, and read before the device has
/// done anything.
TEST_P(HostPlaceTest, CopiesAreInTheOrderOfTheCallersStream) {
  const HostPlace place(device());
  const auto store = place.open(kBytes);
  std::mt19937 random(3);
  constexpr Bytes kPiece = kBytes / 16;
  std::deque<at::Tensor> expected(16);
  for (int round = 0; round < 200; ++round) {
    const std::size_t slot = random() % 16;
    const Bytes offset = static_cast<Bytes>(slot) * kPiece;
    at::Tensor value = random_bytes(kPiece);
    if (!expected[slot].defined() || random() % 2 == 0) {
      expected[slot] = value.cpu();
      const slower::Ticket write = store->write(offset, bytes_of(value), "v");
      if (random() % 2 == 0) store->wait(store->read(offset, bytes_of(value), "v"));
      store->wait(write);
      value.fill_(7);
    } else {
      store->wait(store->read(offset, bytes_of(value), "v"));
      ASSERT_TRUE(at::equal(value.cpu(), expected[slot])) << round;
    }
  }
}

TEST_P(HostPlaceTest, RefusesWhatLiesOutside) {
  const HostPlace place(device());
  const auto store = place.open(kBytes);
  const at::Tensor value = random_bytes(1000);
  EXPECT_THROW(store->write(kBytes - 999, bytes_of(value), "v"), std::logic_error);
  EXPECT_THROW(store->read(-1, bytes_of(value), "v"), std::logic_error);
  EXPECT_THROW(store->wait({7}), std::logic_error);
  EXPECT_THROW(place.open(place.free_bytes() * 2), Error);
}

TEST_P(HostPlaceTest, IsMeasured) {
  const slower::LaneSpeed speed = HostPlace(device()).measured();
  for (const slower::Speed& lane : {speed.out, speed.in}) {
    EXPECT_GE(lane.latency_seconds, 0);
    EXPECT_GE(lane.bytes_per_second, 0);
    EXPECT_LT(lane.latency_seconds, 1);
  }
}

TEST(HostPlace, IsRefusedForTheHost) { EXPECT_THROW(HostPlace{cpu_device()}, InputError); }

}  // namespace
}  // namespace lowtide::device
