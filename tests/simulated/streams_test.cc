#include "simulated/hardware/streams.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

namespace lowtide::simulated {
namespace {

/// One byte to another.
Copy copy_of(const std::byte& from, std::byte& to) { return {&to, &from, 1, nullptr}; }

constexpr std::array<std::byte, 4> kValues = {std::byte{0}, std::byte{1}, std::byte{2},
                                              std::byte{3}};

TEST(Streams, DoTheirOwnWorkInOrder) {
  for (int seed = 0; seed < 50; ++seed) {
    Streams streams(true, static_cast<std::uint64_t>(seed));
    std::byte to{9};
    for (const std::byte& value : kValues) streams.copy(0, copy_of(value, to));
    streams.finish(0);
    EXPECT_EQ(to, kValues[3]);
  }
}

/// What is left where two streams write the same byte.
std::byte last_writer(std::uint64_t seed, bool ordered) {
  Streams streams(true, seed);
  const StreamId other = streams.add();
  std::byte to{9};
  streams.copy(0, copy_of(kValues[1], to));
  if (ordered) streams.wait(other, streams.end(0));
  streams.copy(other, copy_of(kValues[2], to));
  streams.finish_all();
  return to;
}

TEST(Streams, AreInRandomOrderUnlessTheyWait) {
  std::set<std::byte> unordered, ordered;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    unordered.insert(last_writer(seed, false));
    ordered.insert(last_writer(seed, true));
    EXPECT_EQ(last_writer(seed, false), last_writer(seed, false)) << "a seed repeats an order";
  }
  EXPECT_EQ(unordered, (std::set<std::byte>{kValues[1], kValues[2]}));
  EXPECT_EQ(ordered, (std::set<std::byte>{kValues[2]}));
}

TEST(Streams, FinishWhatOthersWaitFor) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Streams streams(true, seed);
    std::vector<std::byte> cells(20, std::byte{0});
    cells[0] = std::byte{7};
    streams.add();
    streams.add();
    // A chain of copies that goes around three streams.
    for (std::size_t i = 1; i < cells.size(); ++i) {
      const auto stream = static_cast<StreamId>(i % 3), before = static_cast<StreamId>((i + 2) % 3);
      streams.wait(stream, streams.end(before));
      streams.copy(stream, copy_of(cells[i - 1], cells[i]));
    }
    streams.finish(static_cast<StreamId>((cells.size() - 1) % 3));
    EXPECT_EQ(cells.back(), std::byte{7});
  }
}

TEST(Streams, AreDoneAtOnceWhenTheyAreNotLate) {
  Streams streams(false, 1);
  std::byte to{9};
  streams.copy(streams.add(), copy_of(kValues[1], to));
  EXPECT_EQ(to, kValues[1]);
  EXPECT_FALSE(streams.may_race());
}

TEST(Streams, ComeToAnEndForAProgramThatAsks) {
  Streams streams(true, 3);
  const auto stamp = std::make_shared<TimeStamp>();
  const Moment moment = streams.record(streams.add(), stamp);
  while (!streams.poll(moment)) {
  }
  EXPECT_TRUE(stamp->time.has_value());
}

TEST(Streams, ReleaseTheHostsMemoryAfterTheCopy) {
  Streams streams(true, 4);
  const auto owner = std::make_shared<int>(0);
  std::byte to{9};
  streams.copy(0, {&to, kValues.data(), 1, owner});
  streams.finish(0);
  EXPECT_EQ(owner.use_count(), 2);
  streams.drop_owners();
  EXPECT_EQ(owner.use_count(), 1);
}

}  // namespace
}  // namespace lowtide::simulated
