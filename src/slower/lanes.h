#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "slower/blocks.h"
#include "slower/medium.h"
#include "slower/store.h"

namespace lowtide::slower {

/// A store of any medium: the lanes, their order and their threads. A process that is forked from
/// the one that made it has none of the threads: there, all calls throw Error.
class LaneStore : public Store {
 public:
  LaneStore(std::unique_ptr<Medium> medium, int threads_per_lane);
  ~LaneStore() override;

  Bytes bytes() const override { return medium_->bytes(); }
  bool serves_host_memory() const override { return medium_->serves_host_memory(); }
  Bytes buffer_bytes() const override { return medium_->buffer_bytes(); }
  Ticket write(Bytes offset, std::span<const std::byte> data, std::string_view name) override;
  Ticket read(Bytes offset, std::span<std::byte> into, std::string_view name) override;
  void wait(Ticket ticket) override;
  bool done(Ticket ticket) const override;
  Counters counters() const override;

 private:
  enum class Direction : std::uint8_t { out, in };

  /// A copy that has not ended.
  struct Transfer {
    std::int64_t number;
    Direction direction;
    std::string name;
    Range range;
    std::span<const std::byte> data;  // of a write
    std::span<std::byte> into;        // of a read
    BlockList blocks;
    std::shared_ptr<const Moment> asked;
    Range touched;             // range of the blocks, widened to the medium's alignment
    std::size_t begun = 0;     // blocks
    std::size_t running = 0;   // blocks
    std::string failure = {};  // empty: none

    bool is_complete() const { return begun == blocks.size() && running == 0; }
  };
  using Lane = std::deque<Transfer>;
  using Clock = std::chrono::steady_clock;

  static std::size_t index_of(Direction direction) { return static_cast<std::size_t>(direction); }
  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  Lane& lane(Direction direction) { return lanes_[index_of(direction)]; }
  Range range_of(Bytes offset, std::size_t bytes) const;
  Ticket start(Transfer transfer);
  void work(const std::stop_token& stop, Direction direction);
  Transfer* next_to_work_on(Direction direction);
  bool must_wait(const Transfer& transfer) const;
  std::string copy(const Transfer& transfer, Block& block, const Worker& worker);
  void copy_part_in(const Transfer& transfer, const Block& block, const Worker& worker);
  void retire(Direction direction);
  std::unique_lock<std::mutex> locked() const;
  void require_given(Ticket ticket) const;
  bool has_ended(Ticket ticket) const;

  const std::unique_ptr<Medium> medium_;
  mutable std::mutex mutex_;  // of all that follows
  std::unique_ptr<std::condition_variable_any> changed_;
  Blocks blocks_;
  std::array<Lane, 2> lanes_;
  std::array<Clock::time_point, 2> busy_since_;  // of the lanes that have copies to do
  std::int64_t given_ = 0;
  std::map<std::int64_t, std::string> failures_;  // by the ticket's number
  Counters counters_;
  const pid_t process_;
  std::unique_ptr<std::vector<std::jthread>> threads_;  // last: they use all of it
};

}  // namespace lowtide::slower
