#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"

/// The slower memory to which values of a plan move while ops run, and from which they come back.
namespace lowtide::slower {

/// Names a copy that a store was asked for.
struct Ticket {
  std::int64_t number = -1;
};

/// What a store has done since it was made.
struct Counters {
  Bytes bytes_out = 0;      ///< of the writes that ended well
  Bytes bytes_in = 0;       ///< of the reads that ended well
  double copy_seconds = 0;  ///< in which a lane had copies to do, the sum of both lanes
  double wait_seconds = 0;  ///< that waits for copies held up what asked for them

  Counters operator+(const Counters& other) const {
    return {bytes_out + other.bytes_out, bytes_in + other.bytes_in,
            copy_seconds + other.copy_seconds, wait_seconds + other.wait_seconds};
  }
  Counters operator-(const Counters& before) const {
    return {bytes_out - before.bytes_out, bytes_in - before.bytes_in,
            copy_seconds - before.copy_seconds, wait_seconds - before.wait_seconds};
  }
};

/// Of the first place and of the second, which may be none.
struct PlaceCounters {
  Counters first, second = {};

  Counters sum() const { return first + second; }
  PlaceCounters operator-(const PlaceCounters& before) const {
    return {first - before.first, second - before.second};
  }
};

/// Slower memory of a fixed size. Writes go through one lane and reads through another; the two
/// lanes work at the same time. In a lane, copies begin and end in the order in which they were
/// asked for, and several may be under way. A copy that touches the bytes of an earlier one in the
/// other lane begins after it. So every read gives what the last write before it put there.
///
/// A write replaces all that it overlaps: what is left of an earlier write at its sides can no
/// longer be read. A read may ask for a part of a write, or for several that lie side by side.
///
/// Functions may be called from any thread.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  /// Awaits the copies that have begun and drops the others. The memory of all of them must be
  /// there until it returns.
  virtual ~Store() = default;

  virtual Bytes bytes() const = 0;
  /// Of them, those before the second of two places (joined_store.h).
  virtual Bytes first_bytes() const { return bytes(); }
  /// Whether the memory that it copies from and to is the host's; else it is a device's.
  virtual bool serves_host_memory() const { return true; }
  /// Host memory that the store itself takes for copies, from its start to its end.
  virtual Bytes buffer_bytes() const = 0;

  /// Starts a copy to the store and returns at once. The caller leaves `data` as it is until wait()
  /// returns. `name` stands in messages. Throws std::logic_error for a range outside the store.
  virtual Ticket write(Bytes offset, std::span<const std::byte> data, std::string_view name) = 0;
  /// Starts a copy from the store and returns at once. The caller does not touch `into` until
  /// wait() returns; its content is undefined where that throws. Throws std::logic_error for a
  /// range outside the store.
  virtual Ticket read(Bytes offset, std::span<std::byte> into, std::string_view name) = 0;

  /// Returns when the copy has ended. Throws Error that names the value, the place and the reason
  /// if it failed, whenever it is asked. A failed write can be tried again; other values are as
  /// they were. Throws std::logic_error for a ticket that this store did not give.
  virtual void wait(Ticket ticket) = 0;
  /// Whether wait() would return or throw at once. Throws as wait() for a ticket of another store.
  virtual bool done(Ticket ticket) const = 0;

  virtual Counters counters() const = 0;
  /// The same by place, where the store has two (joined_store.h).
  virtual PlaceCounters counters_of_places() const { return {counters()}; }
};

}  // namespace lowtide::slower
