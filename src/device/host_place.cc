#include "device/host_place.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/machine_memory.h"
#include "device/pinned_memory.h"
#include "device/streams.h"
#include "slower/blocks.h"
#include "slower/measure.h"

namespace lowtide::device {
namespace {

using slower::Ticket;

constexpr Bytes kMeasuredBytes = Bytes{32} << 20;

c10::Event timed_event(c10::Device device) {
  return c10::Event(device.type(), c10::EventFlag::BACKEND_DEFAULT);
}

/// Work of a stream between two moments.
struct TimedWork {
  explicit TimedWork(c10::Device device) : begin(timed_event(device)), end(timed_event(device)) {}

  double seconds() {
    constexpr double kMilliseconds = 1e-3;  // the unit of events
    end.synchronize();
    return begin.elapsedTime(end) * kMilliseconds;
  }

  c10::Event begin, end;
};

class PinnedStore final : public slower::Store {
 public:
  PinnedStore(c10::Device device, Bytes bytes)
      : device_(device),
        memory_(pinned_memory(bytes)),
        out_(new_stream(device)),
        in_(new_stream(device)) {}

  ~PinnedStore() override {
    out_.synchronize();
    in_.synchronize();
  }
  PinnedStore(const PinnedStore&) = delete;
  PinnedStore& operator=(const PinnedStore&) = delete;

  Bytes bytes() const override { return memory_.numel(); }
  bool serves_host_memory() const override { return false; }
  Bytes buffer_bytes() const override { return 0; }

  Ticket write(Bytes offset, std::span<const std::byte> data, std::string_view name) override {
    const slower::Range range = range_of(offset, data.size());
    return start(out_, range, part_of(memory_, range),
                 device_bytes(data.data(), range.bytes(), device_), name);
  }

  Ticket read(Bytes offset, std::span<std::byte> into, std::string_view name) override {
    const slower::Range range = range_of(offset, into.size());
    return start(in_, range, device_bytes(into.data(), range.bytes(), device_),
                 part_of(memory_, range), name);
  }

  void wait(Ticket ticket) override {
    const std::lock_guard lock(mutex_);
    require_given(ticket);
    const auto copy = under_way_.extract(ticket.number);
    if (copy.empty()) return;
    const c10::Stream callers = current_stream(device_);
    TimedWork& waited = waits_.emplace_back(device_);
    waited.begin.record(callers);
    copy.mapped().work.end.block(callers);
    waited.end.record(callers);
    copies_.push_back(std::move(copy.mapped().work));
  }

  bool done(Ticket ticket) const override {
    const std::lock_guard lock(mutex_);
    require_given(ticket);
    const auto copy = under_way_.find(ticket.number);
    return copy == under_way_.end() || copy->second.work.end.query();
  }

  slower::Counters counters() const override {
    const std::lock_guard lock(mutex_);
    for (TimedWork& copy : std::exchange(copies_, {})) counters_.copy_seconds += copy.seconds();
    for (TimedWork& wait : std::exchange(waits_, {})) counters_.wait_seconds += wait.seconds();
    return counters_;
  }

 private:
  struct CopyUnderWay {
    slower::Range range;
    c10::Stream lane;
    TimedWork work;
  };

  slower::Range range_of(Bytes offset, std::size_t bytes) const {
    if (offset < 0 || offset > this->bytes() ||
        static_cast<Bytes>(bytes) > this->bytes() - offset) {
      throw std::logic_error(fmt::format("{} bytes at {} lie outside a store of {} bytes", bytes,
                                         offset, this->bytes()));
    }
    return {offset, offset + static_cast<Bytes>(bytes)};
  }

  void require_given(Ticket ticket) const {
    if (ticket.number >= 0 && ticket.number < given_) return;
    throw std::logic_error(fmt::format("no copy of this store has the ticket {}", ticket.number));
  }

  Ticket start(c10::Stream lane, slower::Range range, const at::Tensor& to, const at::Tensor& from,
               std::string_view name) {
    const std::lock_guard lock(mutex_);
    CopyUnderWay copy{range, lane, TimedWork(device_)};
    order_after_earlier(copy);
    try {
      const c10::StreamGuard guard(lane);
      copy.work.begin.record(lane);
      to.copy_(from, /*non_blocking=*/true);
      copy.work.end.record(lane);
    } catch (const c10::Error& error) {
      throw copy_error(name, device_, error);
    }
    (lane == out_ ? counters_.bytes_out : counters_.bytes_in) += range.bytes();
    under_way_.emplace(given_, std::move(copy));
    return {given_++};
  }

  /// After the caller's work so far, and after copies of the other lane that touch the same bytes.
  void order_after_earlier(const CopyUnderWay& copy) const {
    c10::Event asked(device_.type());
    asked.record(current_stream(device_));
    asked.block(copy.lane);
    for (const auto& [number, other] : under_way_) {
      if (other.lane != copy.lane && other.range.overlaps(copy.range)) {
        other.work.end.block(copy.lane);
      }
    }
  }

  const c10::Device device_;
  const at::Tensor memory_;
  const c10::Stream out_, in_;
  mutable std::mutex mutex_;  // of all that follows
  std::int64_t given_ = 0;
  std::map<std::int64_t, CopyUnderWay> under_way_;  // until somebody waits for them
  mutable std::vector<TimedWork> copies_, waits_;   // that the counters lack
  mutable slower::Counters counters_;
};

}  // namespace

HostPlace::HostPlace(const ComputeDevice& device) : device_(device) {
  if (!device.is_host_memory()) return;
  throw InputError(fmt::format("the memory of {} is the host's already, so nothing is gained by "
                               "moving values to the host; name a folder on a disk instead",
                               device.torch_device().str()));
}

std::string HostPlace::name() const { return "the host's memory"; }

std::string HostPlace::medium() const { return "the host of " + device_.name(); }

Bytes HostPlace::free_bytes() const { return machine_memory().free; }

slower::LaneSpeed HostPlace::measured() const {
  const auto store = open(kMeasuredBytes);
  const std::shared_ptr<std::byte> memory = device_.allocate_scratch(kMeasuredBytes);
  return slower::measure(*store, {memory.get(), static_cast<std::size_t>(kMeasuredBytes)}, [&] {
    device_.synchronize();  // as waits do not hold up the host
    return slower::steady_seconds();
  });
}

std::unique_ptr<slower::Store> HostPlace::open(Bytes bytes) const {
  const Bytes free = free_bytes();
  if (bytes > free) {
    throw Error(
        fmt::format("cannot take {} ({} bytes) of host memory for values: {} ({} bytes) are "
                    "free; end other programs, or allow fewer bytes",
                    format_bytes(bytes), bytes, format_bytes(free), free));
  }
  return std::make_unique<PinnedStore>(device_.torch_device(), bytes);
}

}  // namespace lowtide::device
