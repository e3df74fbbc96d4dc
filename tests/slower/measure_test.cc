#include "slower/measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "slower/host_store.h"

namespace lowtide::slower {
namespace {

TEST(FittedSpeed, IsTheLineThroughTheTimes) {
  const std::array<CopyTime, 4> times{{{100, 3}, {100, 5}, {300, 7}, {300, 9}}};
  const Speed speed = fitted_speed(times);
  EXPECT_DOUBLE_EQ(speed.latency_seconds, 2);
  EXPECT_DOUBLE_EQ(speed.bytes_per_second, 50);
}

TEST(FittedSpeed, IsNeverNegative) {
  const std::array<CopyTime, 2> early{{{100, 1}, {300, 5}}};
  EXPECT_EQ(fitted_speed(early).latency_seconds, 0);
  EXPECT_DOUBLE_EQ(fitted_speed(early).bytes_per_second, 200.0 / 3);
  const std::array<CopyTime, 2> falling{{{100, 5}, {300, 1}}};
  EXPECT_EQ(fitted_speed(falling).latency_seconds, 3);
  EXPECT_EQ(fitted_speed(falling).bytes_per_second, 0);
}

/// A store that copies nothing and has a clock of its own, which copies move on.
class ClockedStore final : public Store {
 public:
  ClockedStore(Bytes bytes, const LaneSpeed& speed) : bytes_(bytes), speed_(speed) {}

  double now() const { return now_; }
  Bytes bytes() const override { return bytes_; }
  Bytes buffer_bytes() const override { return 0; }
  Ticket write(Bytes, std::span<const std::byte> data, std::string_view) override {
    return start(out_free_, speed_.out, data.size());
  }
  Ticket read(Bytes, std::span<std::byte> into, std::string_view) override {
    return start(speed_.shared ? out_free_ : in_free_, speed_.in, into.size());
  }
  void wait(Ticket ticket) override {
    now_ = std::max(now_, ends_[std::size_t(ticket.number)]);
  }
  bool done(Ticket) const override { return false; }
  Counters counters() const override { return {}; }

 private:
  Ticket start(double& free, const Speed& speed, std::size_t bytes) {
    if (bytes > 0) {
      // Some copies are late for reasons of their own.
      const double late = ends_.size() % 3 == 0 ? 0.5 : 0;
      free = std::max(free, now_) + speed.latency_seconds + double(bytes) / speed.bytes_per_second;
      ends_.push_back(free + late);
    } else {
      ends_.push_back(now_);
    }
    return {std::int64_t(ends_.size()) - 1};
  }

  Bytes bytes_;
  LaneSpeed speed_;
  double now_ = 0, out_free_ = 0, in_free_ = 0;
  std::vector<double> ends_;
};

TEST(Measure, FindsTheSpeedsOfAStore) {
  for (const Bytes bytes : {Bytes{1} << 16, (Bytes{1} << 20) + 5, Bytes{1} << 28}) {
    for (const bool shared : {false, true}) {
      const LaneSpeed speed{.out = {.latency_seconds = 1e-3, .bytes_per_second = 1e9},
                            .in = {.latency_seconds = 2e-4, .bytes_per_second = 7e9},
                            .shared = shared};
      ClockedStore store(bytes, speed);
      const LaneSpeed found = measure(store, [&] { return store.now(); });
      EXPECT_NEAR(found.out.latency_seconds, 1e-3, 1e-8);
      EXPECT_NEAR(found.out.bytes_per_second, 1e9, 1e4);
      EXPECT_NEAR(found.in.latency_seconds, 2e-4, 1e-8);
      EXPECT_NEAR(found.in.bytes_per_second, 7e9, 1e5);
      EXPECT_EQ(found.shared, shared) << bytes;
    }
  }
}

TEST(Measure, TakesARealStore) {
  HostStore store(1 << 20);
  const LaneSpeed found = measure(store);
  EXPECT_GE(found.out.latency_seconds, 0);
  EXPECT_GE(found.in.bytes_per_second, 0);
}

TEST(Measure, RefusesAStoreThatIsTooSmall) {
  HostStore store(100);
  EXPECT_THROW(measure(store), InputError);
}

}  // namespace
}  // namespace lowtide::slower
