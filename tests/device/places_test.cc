#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "base/at.h"
#include "base/error.h"
#include "device/disk_place.h"
#include "device/each_device.h"
#include "device/host_place.h"
#include "device/staged_medium.h"
#include "slower/faulty_calls.h"
#include "slower/file_medium.h"
#include "slower/lanes.h"

namespace lowtide::device {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Bytes kBytes = Bytes{1} << 16;

/// Of a device with memory of its own, to the host's memory and to a disk.
class PlacesTest : public OnEachDevice {
 protected:
  void SetUp() override {
    if (device().is_host_memory()) GTEST_SKIP() << "the host's own memory";
  }
  at::Tensor random_bytes(Bytes bytes) const {
    return at::randint(256, {bytes}, options(at::kByte));
  }
  void for_each_place(const std::function<void(const slower::Place&)>& test) const {
    const HostPlace host(device());
    const DiskPlace disk(device(), std::filesystem::temp_directory_path());
    for (const slower::Place* place :
         {static_cast<const slower::Place*>(&host), static_cast<const slower::Place*>(&disk)}) {
      SCOPED_TRACE(place->name());
      test(*place);
    }
  }
};

ON_EACH_DEVICE(PlacesTest);

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel())};
}

TEST_P(PlacesTest, GiveBackWhatTheyGot) {
  for_each_place([&](const slower::Place& place) {
    const auto store = place.open(kBytes);
    EXPECT_EQ(store->bytes(), kBytes);
    EXPECT_FALSE(store->serves_host_memory());
    EXPECT_EQ(place.buffer_bytes(), 0);
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
  });
}

/// Values are overwritten as soon as their copy has been waited for, and read before the device has
/// done anything.
TEST_P(PlacesTest, CopyInTheOrderOfTheCallersStream) {
  for_each_place([&](const slower::Place& place) {
    const auto store = place.open(kBytes);
    std::mt19937 random(3);
    constexpr Bytes kPiece = kBytes / 16;
    std::vector<at::Tensor> expected(16);
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
  });
}

/// Copies of several blocks, and more copies under way than there are workers.
TEST_P(PlacesTest, CopyLargeValuesAtOnce) {
  for_each_place([&](const slower::Place& place) {
    constexpr Bytes kValue = (Bytes{5} << 20) / 2 + 12345;
    constexpr int kValues = 6;
    const auto store = place.open(kValue * kValues);
    std::vector<at::Tensor> values, expected;
    std::vector<slower::Ticket> writes, reads;
    for (int i = 0; i < kValues; ++i) {
      values.push_back(random_bytes(kValue));
      expected.push_back(values.back().clone());
      writes.push_back(store->write(i * kValue, bytes_of(values.back()), "v"));
    }
    for (int i = 0; i < kValues; ++i) {
      store->wait(writes[at(i)]);
      values[at(i)].fill_(7);
      reads.push_back(store->read(i * kValue, bytes_of(values[at(i)]), "v"));
    }
    for (int i = 0; i < kValues; ++i) {
      store->wait(reads[at(i)]);
      EXPECT_TRUE(at::equal(values[at(i)], expected[at(i)])) << i;
    }
  });
}

TEST_P(PlacesTest, RefuseWhatLiesOutside) {
  for_each_place([&](const slower::Place& place) {
    const auto store = place.open(kBytes);
    const at::Tensor value = random_bytes(1000);
    EXPECT_THROW(store->write(kBytes - 999, bytes_of(value), "v"), std::logic_error);
    EXPECT_THROW(store->read(-1, bytes_of(value), "v"), std::logic_error);
    EXPECT_THROW(store->wait({7}), std::logic_error);
    EXPECT_THROW(place.open(place.free_bytes() * 2), Error);
  });
}

TEST_P(PlacesTest, AreMeasured) {
  for_each_place([&](const slower::Place& place) {
    const slower::LaneSpeed speed = place.measured();
    for (const slower::Speed& lane : {speed.out, speed.in}) {
      EXPECT_GE(lane.latency_seconds, 0);
      EXPECT_GE(lane.bytes_per_second, 0);
      EXPECT_LT(lane.latency_seconds, 1);
    }
  });
}

/// Every fault ends in the right bytes or in one error, after which the store goes on.
TEST_P(PlacesTest, SayWhichValueADiskHasLost) {
  using slower::Fault;
  constexpr Bytes kValue = Bytes{3} << 20;
  constexpr int kWorkers = 4;
  slower::FaultyCalls calls;
  const slower::FileOptions options{.request_bytes = Bytes{1} << 20, .calls = &calls};
  slower::LaneStore store(
      std::make_unique<StagedMedium>(device().torch_device(),
                                     std::make_unique<slower::FileMedium>(
                                         std::filesystem::temp_directory_path(), kValue, options),
                                     kWorkers),
      kWorkers / 2);
  const at::Tensor value = random_bytes(kValue);
  const at::Tensor expected = value.cpu();
  const auto written_and_read = [&] {
    store.wait(store.write(0, bytes_of(value), "weights"));
    at::Tensor back = at::zeros_like(value);
    store.wait(store.read(0, bytes_of(back), "weights"));
    return at::equal(back.cpu(), expected);
  };
  for (const Fault fault : {Fault::error, Fault::flipped, Fault::nothing, Fault::lie}) {
    calls.fail_reads(fault);
    EXPECT_THAT(written_and_read, ThrowsMessage<Error>(HasSubstr("\"weights\"")));
    EXPECT_TRUE(at::equal(value.cpu(), expected));
    EXPECT_TRUE(written_and_read());
  }
  calls.fail_writes(Fault::error);
  EXPECT_THAT(written_and_read, ThrowsMessage<Error>(HasSubstr("\"weights\"")));
  EXPECT_TRUE(written_and_read());
  calls.fail_reads(Fault::part);
  EXPECT_TRUE(written_and_read());
}

TEST(Places, OfADeviceAreRefusedForTheHost) {
  EXPECT_THROW(HostPlace{cpu_device()}, InputError);
  EXPECT_THROW(DiskPlace(cpu_device(), std::filesystem::temp_directory_path()), InputError);
}

}  // namespace
}  // namespace lowtide::device
