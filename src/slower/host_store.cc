#include "slower/host_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>

#include "base/at.h"
#include "base/error.h"

namespace lowtide::slower {
namespace {

using Clock = std::chrono::steady_clock;

/// Throws InputError for what is no speed.
LaneSpeed checked_speed(const LaneSpeed& speed) {
  for (const double number : {speed.out.latency_seconds, speed.out.bytes_per_second,
                              speed.in.latency_seconds, speed.in.bytes_per_second}) {
    if (number >= 0) continue;  // false for what is no number
    throw InputError(fmt::format("{} is no latency or bandwidth of slower memory: give seconds, or "
                                 "bytes per second, from 0 on",
                                 number));
  }
  return speed;
}

std::unique_ptr<std::byte[]> host_memory(Bytes bytes) {
  if (bytes < 0) throw InputError(fmt::format("slower memory cannot have {} bytes", bytes));
  try {
    return std::make_unique_for_overwrite<std::byte[]>(at(bytes));
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format("the system refuses {} of host memory for values; ask for fewer bytes",
                            format_bytes(bytes)));
  }
}

Clock::duration duration_of(double seconds) {
  constexpr double kLongest = 1e9;  // more would overflow the clock
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(std::min(seconds, kLongest)));
}

/// Host memory behind a bus that takes its time.
class HostMedium final : public Medium {
 public:
  HostMedium(Bytes bytes, const LaneSpeed& speed)
      : bytes_(bytes), speed_(checked_speed(speed)), data_(host_memory(bytes)) {}

  std::string name() const override { return "the host's slower memory"; }
  Bytes bytes() const override { return bytes_; }
  Bytes buffer_bytes() const override { return 0; }
  Bytes alignment() const override { return 1; }
  Bytes largest_block() const override { return std::max<Bytes>(bytes_, 1); }

  void write(Block& block, std::span<const std::byte> data, const Worker& worker) override {
    const Clock::time_point end = occupy(out_free_, speed_.out, block.range.bytes());
    std::ranges::copy(data, data_.get() + block.range.begin);
    sleep_until(end, worker.stop);
  }
  void read(const Block&, Bytes offset, std::span<std::byte> into, const Worker& worker) override {
    Clock::time_point& free = speed_.shared ? out_free_ : in_free_;
    const Clock::time_point end = occupy(free, speed_.in, static_cast<Bytes>(into.size()));
    std::copy_n(data_.get() + offset, into.size(), into.begin());
    sleep_until(end, worker.stop);
  }

 private:
  /// Keeps the bus busy for these bytes, from when it is free. Returns when they have arrived.
  Clock::time_point occupy(Clock::time_point& free, const Speed& speed, Bytes bytes) {
    const std::lock_guard lock(mutex_);
    free = std::max(free, Clock::now());
    if (speed.bytes_per_second > 0) {
      free += duration_of(static_cast<double>(bytes) / speed.bytes_per_second);
    }
    return free + duration_of(speed.latency_seconds);
  }

  void sleep_until(Clock::time_point end, std::stop_token stop) {
    std::unique_lock lock(mutex_);
    asleep_.wait_until(lock, std::move(stop), end, [] { return false; });
  }

  const Bytes bytes_;
  const LaneSpeed speed_;
  const std::unique_ptr<std::byte[]> data_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable_any asleep_;
  Clock::time_point out_free_;
  Clock::time_point in_free_;
};

}  // namespace

HostStore::HostStore(Bytes bytes, const LaneSpeed& speed)
    : LaneStore(std::make_unique<HostMedium>(bytes, speed), 1) {}

}  // namespace lowtide::slower
