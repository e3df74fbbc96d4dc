#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <variant>
#include <vector>

namespace lowtide::simulated {

/// 0 is the default stream; the others are numbered as they are made.
using StreamId = std::int64_t;

/// A place in the work of a stream: reached when the first `count` pieces of its work are done.
struct Moment {
  StreamId stream = 0;
  std::int64_t count = 0;
};

/// Bytes to copy. `owner` keeps memory of the host alive until the copy is done.
struct Copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const void> owner;
};

/// When a stream came to the place where an event was recorded.
struct TimeStamp {
  std::optional<std::chrono::steady_clock::time_point> time;
};

/// The streams of the device: each does its work in order and later than it is asked to. Between
/// streams the order is random, except that a stream waits for moments of others when it is told
/// to. Work is done in calls of these functions, under one lock, so that a seed repeats a program's
/// order of work.
class Streams {
 public:
  /// Work is done at once when `late` is false.
  Streams(bool late, std::uint64_t seed);

  StreamId add();
  std::int64_t count() const;
  /// Whether work may be seen undone: it is late, and there are streams that could see it.
  bool may_race() const;
  void reseed(std::uint64_t seed);

  void copy(StreamId stream, Copy copy);
  void wait(StreamId stream, Moment moment);
  /// The moment at which all work asked of `stream` so far is done; `stamp` then has the time.
  Moment record(StreamId stream, std::shared_ptr<TimeStamp> stamp);

  Moment end(StreamId stream) const;
  /// Does some work at random before it looks, so that a program that asks again comes to an end.
  bool poll(Moment moment);
  bool reached(Moment moment) const;
  /// Does the work of the stream up to the moment, and the work that this work waits for.
  void finish(Moment moment);
  void finish(StreamId stream) { finish(end(stream)); }
  void finish_all();

  /// Releases the host memory of copies that are done. To be called without locks: what owns the
  /// memory may be an object of Python.
  void drop_owners();

 private:
  struct Mark {
    std::shared_ptr<TimeStamp> stamp;
  };
  using Work = std::variant<Copy, Moment, Mark>;
  struct Queue {
    std::deque<Work> work;
    std::int64_t done = 0;
  };

  bool is_reached(Moment moment) const;
  Moment end_of(StreamId stream) const;
  void push(StreamId stream, Work work);
  void finish_held(Moment moment);
  void do_first(Queue& queue);
  bool is_blocked(const Queue& queue) const;
  void do_some();
  bool do_one();
  double draw() { return std::uniform_real_distribution<double>()(random_); }
  void draw_zeal();

  mutable std::mutex mutex_;
  bool late_;
  std::mt19937_64 random_;
  double zeal_ = 0;  ///< the chance that a stream does its next piece of work before it must
  int calls_ = 0;
  std::deque<Queue> queues_;                         ///< by stream
  std::vector<std::shared_ptr<const void>> owners_;  ///< of copies that are done
};

/// The thread's current stream.
StreamId current_stream();
/// Returns the thread's stream before.
StreamId exchange_current_stream(StreamId stream);

}  // namespace lowtide::simulated
