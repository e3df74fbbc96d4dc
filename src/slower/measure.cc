#include "slower/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "base/at.h"
#include "base/error.h"
#include "slower/aligned_memory.h"

namespace lowtide::slower {
namespace {

constexpr Bytes kLargestCopy = Bytes{32} << 20;
constexpr Bytes kSmallestStore = 16 * kPage;
constexpr Bytes kSizeRatio = 64;  // of the two sizes of copies
constexpr int kCopies = 5;        // of each size
constexpr int kCounted = 3;       // the quickest of them

/// Bytes that no disk makes smaller.
void fill_randomly(std::span<std::byte> data) {
  std::mt19937_64 random(1);
  std::ranges::generate(data, [&] { return static_cast<std::byte>(random()); });
}

/// Copies between a store and host memory: writes go to its first half, reads come from its second.
class Bench {
 public:
  Bench(Store& store, std::span<std::byte> memory, const std::function<double()>& now)
      : store_(store),
        now_(now),
        half_(align_down(std::min(store.bytes(), static_cast<Bytes>(memory.size())) / 2, kPage)),
        memory_(memory) {
    store_.wait(store_.write(half_, in(half_), kName));  // there must be something to read
  }

  Bytes largest() const { return half_; }

  /// Seconds that a write and a read take that begin together; 0 bytes: without it.
  double time(Bytes bytes_out, Bytes bytes_in) {
    const double begin = now_();
    const Ticket write = store_.write(0, out(bytes_out), kName);
    const Ticket read = store_.read(half_, in(bytes_in), kName);
    store_.wait(write);
    store_.wait(read);
    return now_() - begin;
  }

 private:
  static constexpr std::string_view kName = "measurement";

  std::span<std::byte> out(Bytes bytes) { return memory_.first(at(bytes)); }
  std::span<std::byte> in(Bytes bytes) { return memory_.subspan(at(half_), at(bytes)); }

  Store& store_;
  const std::function<double()>& now_;
  const Bytes half_;
  const std::span<std::byte> memory_;
};

/// The quickest of a few times, in order.
template <typename Time>
std::vector<double> quickest(const Time& time) {
  std::vector<double> seconds;
  for (int copy = 0; copy < kCopies; ++copy) seconds.push_back(time());
  std::ranges::sort(seconds);
  seconds.resize(kCounted);
  return seconds;
}

/// The speed of copies of one direction, which `time` does and times.
template <typename Time>
Speed speed_of(Bytes largest, const Time& time) {
  std::vector<CopyTime> times;
  for (const Bytes bytes : {align_up(largest / kSizeRatio, kPage), largest}) {
    for (const double seconds : quickest([&] { return time(bytes); })) {
      times.push_back({bytes, seconds});
    }
  }
  return fitted_speed(times);
}

/// Bytes that take one direction as long as `largest` takes the slower one.
Bytes balanced(Bytes largest, const Speed& speed, const Speed& other) {
  if (speed.bytes_per_second <= 0 || other.bytes_per_second <= 0) return largest;
  const double share = std::min(1.0, speed.bytes_per_second / other.bytes_per_second);
  return std::clamp(align_down(static_cast<Bytes>(share * static_cast<double>(largest)), kPage),
                    kPage, largest);
}

/// Whether both directions at once take longer than the mean of side by side and one by one.
bool slow_each_other(Bench& bench, const Speed& out, const Speed& in) {
  const Bytes bytes_out = balanced(bench.largest(), out, in);
  const Bytes bytes_in = balanced(bench.largest(), in, out);
  const auto best = [&](Bytes a, Bytes b) {
    return quickest([&] { return bench.time(a, b); }).front();
  };
  const double alone_out = best(bytes_out, 0), alone_in = best(0, bytes_in);
  return best(bytes_out, bytes_in) >
         std::max(alone_out, alone_in) + std::min(alone_out, alone_in) / 2;
}

}  // namespace

Speed fitted_speed(std::span<const CopyTime> times) {
  const auto count = static_cast<double>(times.size());
  double mean_bytes = 0, mean_seconds = 0;
  for (const CopyTime& time : times) {
    mean_bytes += static_cast<double>(time.bytes) / count;
    mean_seconds += time.seconds / count;
  }
  double covariance = 0, variance = 0;
  for (const CopyTime& time : times) {
    const double bytes = static_cast<double>(time.bytes) - mean_bytes;
    covariance += bytes * (time.seconds - mean_seconds);
    variance += bytes * bytes;
  }
  if (covariance <= 0) return {.latency_seconds = mean_seconds, .bytes_per_second = 0};
  const double slope = covariance / variance;
  const double latency = mean_seconds - slope * mean_bytes;
  if (latency >= 0) return {.latency_seconds = latency, .bytes_per_second = 1 / slope};
  // Through the origin: a negative latency is an error of measurement.
  return {.latency_seconds = 0, .bytes_per_second = mean_bytes / mean_seconds};
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

LaneSpeed measure(Store& store, const std::function<double()>& now) {
  const Bytes bytes = 2 * std::min(align_down(store.bytes() / 2, kPage), kLargestCopy);
  const AlignedMemory memory = aligned_memory(bytes);
  const std::span<std::byte> data(memory.get(), at(bytes));
  fill_randomly(data);
  return measure(store, data, now);
}

LaneSpeed measure(Store& store, std::span<std::byte> memory, const std::function<double()>& now) {
  if (store.bytes() < kSmallestStore) {
    throw InputError(fmt::format("slower memory of {} is too small to measure: {} are needed",
                                 format_bytes(store.bytes()), format_bytes(kSmallestStore)));
  }
  Bench bench(store, memory, now);
  const Speed out = speed_of(bench.largest(), [&](Bytes bytes) { return bench.time(bytes, 0); });
  const Speed in = speed_of(bench.largest(), [&](Bytes bytes) { return bench.time(0, bytes); });
  return {.out = out, .in = in, .shared = slow_each_other(bench, out, in)};
}

}  // namespace lowtide::slower
