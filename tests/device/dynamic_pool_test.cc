#include "device/dynamic_pool.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "device/each_device.h"

namespace lowtide::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(BestFit, TakesTheTightestHoleAndJoinsNeighbours) {
  BestFit fit;
  const Bytes a = fit.allocate(256);
  const Bytes b = fit.allocate(64);
  const Bytes c = fit.allocate(128);
  const Bytes d = fit.allocate(64);
  EXPECT_EQ(fit.top(), 512);
  fit.release(a);
  fit.release(c);
  EXPECT_EQ(fit.allocate(100), c);  // 128 is tighter than 256
  fit.release(c);
  fit.release(b);  // joins a, b and c
  EXPECT_EQ(fit.allocate(448), a);
  fit.release(d);
  EXPECT_EQ(fit.top(), 448);
  EXPECT_EQ(fit.peak(), 512);
  fit.release(a);
  EXPECT_EQ(fit.top(), 0);
  EXPECT_EQ(fit.live_bytes(), 0);
}

TEST(BestFit, NeverGivesBytesTwice) {
  std::mt19937 random(7);
  BestFit fit;
  std::map<Bytes, Bytes> live;
  for (int i = 0; i < 20000; ++i) {
    if (live.empty() || random() % 100 < 55) {
      const Bytes bytes = 1 + static_cast<Bytes>(random() % 5000);
      const Bytes offset = fit.allocate(bytes);
      ASSERT_EQ(offset % 64, 0);
      const auto next = live.lower_bound(offset);
      ASSERT_TRUE(next == live.end() || offset + bytes <= next->first);
      ASSERT_TRUE(next == live.begin() ||
                  std::prev(next)->first + std::prev(next)->second <= offset);
      live[offset] = bytes;
    } else {
      const auto victim =
          std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      fit.release(victim->first);
      live.erase(victim);
    }
  }
  for (const auto& [offset, bytes] : live) fit.release(offset);
  EXPECT_EQ(fit.top(), 0);
}

class PoolOnEachDevice : public OnEachDevice {};

ON_EACH_DEVICE(PoolOnEachDevice);

TEST_P(PoolOnEachDevice, ServesTensorsAndRecyclesTheirMemory) {
  DynamicPool pool(device(), Bytes{1} << 20);
  const auto serving = device().serve(pool, pool);
  const void* first = nullptr;
  {
    const at::Tensor x = at::ones({1000}, options());
    first = x.const_data_ptr();
    EXPECT_EQ(pool.live_bytes(), 4032);
  }
  EXPECT_EQ(pool.live_bytes(), 0);
  EXPECT_EQ(at::ones({1000}, options()).const_data_ptr(), first);
  EXPECT_EQ(pool.count(), 2);
}

TEST_P(PoolOnEachDevice, TensorsOutliveIt) {
  at::Tensor x;
  {
    DynamicPool pool(device(), Bytes{1} << 20);
    const auto serving = device().serve(pool, pool);
    x = at::full({1000}, 3.0, options());
  }
  EXPECT_EQ(x.sum().item<float>(), 3000.0F);
}

TEST_P(PoolOnEachDevice, TakesNoByteMoreThanItsCapacityAndNamesBothNumbers) {
  DynamicPool pool(device(), 4000);  // less than a page
  const auto serving = device().serve(pool, pool);
  const at::Tensor x = at::ones({500}, options());
  EXPECT_THAT([this] { at::ones({500}, options()); },
              ThrowsMessage<PoolFull>(AllOf(HasSubstr("(4096 bytes) for a request of 2000 bytes"),
                                            HasSubstr("(4000 bytes)"))));
  EXPECT_EQ(pool.live_bytes(), 2048);
  EXPECT_NO_THROW(at::ones({480}, options()));  // goes on with what is left
}

TEST(DynamicPool, TakesMemoryOfTheHostAsItGrows) {
  DynamicPool pool(cpu_device(), Bytes{1} << 40);
  const Serving serving(pool);
  EXPECT_EQ(at::ones({10}).sum().item<float>(), 10.0F);
}

}  // namespace
}  // namespace lowtide::device
