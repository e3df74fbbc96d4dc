#include "slower/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "slower/some_values.h"

namespace lowtide::slower {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(HostMemory, HasTheSpeedThatWasGivenOrThatOfMemory) {
  const LaneSpeed given{.out = {1e-3, 1e9}, .in = {2e-3, 2e9}};
  const LaneSpeed told = HostMemory(given).measured();
  EXPECT_EQ(told.in.bytes_per_second, 2e9);
  EXPECT_EQ(told.out.latency_seconds, 1e-3);
  EXPECT_GT(HostMemory().measured().out.bytes_per_second, 1e6);
}

TEST(HostMemory, GivesBackWhatItGot) {
  const auto store = HostMemory().open(4096);
  EXPECT_EQ(store->buffer_bytes(), HostMemory().buffer_bytes());
  const Value value(4096, 0, 1), back(4096, 0, 2);
  store->wait(store->write(0, value.span(), "v"));
  store->wait(store->read(0, back.span(), "v"));
  EXPECT_TRUE(std::ranges::equal(back.span(), value.span()));
}

TEST(HostMemory, RefusesMoreThanIsFree) {
  const HostMemory memory;
  EXPECT_THAT([&] { static_cast<void>(memory.open(Bytes{1} << 60)); },
              ThrowsMessage<Error>(HasSubstr("--host-budget")));
}

}  // namespace
}  // namespace lowtide::slower
