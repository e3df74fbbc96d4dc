#include "slower/lanes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "base/at.h"
#include "base/error.h"

namespace lowtide::slower {
namespace {

Range range_of_blocks(const BlockList& blocks) {
  if (blocks.empty()) return {};
  return {blocks.front()->range.begin, blocks.back()->range.end};
}

/// The bytes of a transfer of `whole` that belong to `part` of it.
template <typename Byte>
std::span<Byte> part_of(std::span<Byte> data, Range whole, Range part) {
  return data.subspan(at(part.begin - whole.begin), at(part.bytes()));
}

}  // namespace

LaneStore::LaneStore(std::unique_ptr<Medium> medium, int threads_per_lane)
    : medium_(std::move(medium)),
      changed_(std::make_unique<std::condition_variable_any>()),
      blocks_(medium_->largest_block(), medium_->alignment()),
      process_(::getpid()),
      threads_(std::make_unique<std::vector<std::jthread>>()) {
  for (int worker = 0; worker < 2 * threads_per_lane; ++worker) {
    const Direction direction = worker < threads_per_lane ? Direction::out : Direction::in;
    threads_->emplace_back(
        [this, direction](const std::stop_token& stop) { work(stop, direction); });
  }
}

LaneStore::~LaneStore() {
  if (::getpid() != process_) {  // to end threads that are not there would take for ever
    [[maybe_unused]] const auto* threads = threads_.release();
    [[maybe_unused]] const auto* changed = changed_.release();
    return;
  }
  for (std::jthread& thread : *threads_) thread.request_stop();  // all, before the first is awaited
}

std::unique_lock<std::mutex> LaneStore::locked() const {
  if (::getpid() != process_) {
    throw Error(fmt::format("a process that was forked from the one that trains cannot copy to or "
                            "from {}: take what it is to have, such as the state dict of an "
                            "optimizer, before the fork, or start it by spawn",
                            medium_->name()));
  }
  return std::unique_lock(mutex_);
}

Range LaneStore::range_of(Bytes offset, std::size_t bytes) const {
  const Bytes whole = medium_->bytes();
  if (offset < 0 || offset > whole || bytes > at(whole - offset)) {
    throw std::logic_error(
        fmt::format("{} bytes at {} lie outside a store of {} bytes", bytes, offset, whole));
  }
  return {offset, offset + static_cast<Bytes>(bytes)};
}

Ticket LaneStore::write(Bytes offset, std::span<const std::byte> data, std::string_view name) {
  const Range range = range_of(offset, data.size());
  const std::unique_lock lock = locked();
  return start({.number = given_++,
                .direction = Direction::out,
                .name = std::string(name),
                .range = range,
                .data = data,
                .into = {},
                .blocks = blocks_.replace(range),
                .asked = medium_->now(),
                .touched = {}});
}

Ticket LaneStore::read(Bytes offset, std::span<std::byte> into, std::string_view name) {
  const Range range = range_of(offset, into.size());
  const std::unique_lock lock = locked();
  Transfer transfer{.number = given_++,
                    .direction = Direction::in,
                    .name = std::string(name),
                    .range = range,
                    .data = {},
                    .into = into,
                    .blocks = blocks_.covering(range),
                    .asked = medium_->now(),
                    .touched = {}};
  if (transfer.blocks.empty() && !into.empty()) {
    transfer.failure = fmt::format(
        "cannot read the value \"{}\" from {}: bytes {} to {} of it were never written, or written "
        "over in part",
        name, medium_->name(), range.begin, range.end);
  }
  return start(std::move(transfer));
}

Ticket LaneStore::start(Transfer transfer) {
  transfer.touched = blocks_.aligned(range_of_blocks(transfer.blocks));
  const Ticket ticket{transfer.number};
  const Direction direction = transfer.direction;
  if (lane(direction).empty()) busy_since_[index_of(direction)] = Clock::now();
  lane(direction).push_back(std::move(transfer));
  retire(direction);  // it may have nothing to copy
  changed_->notify_all();
  return ticket;
}

void LaneStore::wait(Ticket ticket) {
  std::unique_lock lock = locked();
  require_given(ticket);
  if (!has_ended(ticket)) {
    const Clock::time_point begin = Clock::now();
    changed_->wait(lock, [&] { return has_ended(ticket); });
    counters_.wait_seconds += seconds_since(begin);
  }
  const auto failure = failures_.find(ticket.number);
  if (failure != failures_.end()) throw Error(failure->second);
}

bool LaneStore::done(Ticket ticket) const {
  const std::unique_lock lock = locked();
  require_given(ticket);
  return has_ended(ticket);
}

Counters LaneStore::counters() const {
  const std::unique_lock lock = locked();
  return counters_;
}

void LaneStore::require_given(Ticket ticket) const {
  if (ticket.number >= 0 && ticket.number < given_) return;
  throw std::logic_error(fmt::format("no copy of this store has the ticket {}", ticket.number));
}

bool LaneStore::has_ended(Ticket ticket) const {
  return std::ranges::none_of(lanes_, [&](const Lane& lane) {
    return std::ranges::binary_search(lane, ticket.number, {}, &Transfer::number);
  });
}

void LaneStore::work(const std::stop_token& stop, Direction direction) {
  std::unique_lock lock(mutex_);
  while (true) {
    Transfer* transfer = nullptr;
    changed_->wait(lock, stop, [&] { return (transfer = next_to_work_on(direction)) != nullptr; });
    if (stop.stop_requested()) return;
    Block& block = *transfer->blocks[transfer->begun++];
    ++transfer->running;
    lock.unlock();
    std::string failure = copy(*transfer, block, {transfer->name, stop, transfer->asked.get()});
    lock.lock();
    --transfer->running;
    if (!failure.empty() && transfer->failure.empty()) {
      transfer->failure = std::move(failure);
      transfer->begun = transfer->blocks.size();  // the rest is of no use
    }
    retire(direction);
    changed_->notify_all();
  }
}

/// The first transfer of the lane with blocks left. No later one goes before it.
LaneStore::Transfer* LaneStore::next_to_work_on(Direction direction) {
  for (Transfer& transfer : lane(direction)) {
    if (transfer.begun == transfer.blocks.size()) continue;
    return must_wait(transfer) ? nullptr : &transfer;
  }
  return nullptr;
}

/// Whether an earlier copy of bytes that this one touches is still to end. Two reads do not matter
/// to each other.
bool LaneStore::must_wait(const Transfer& transfer) const {
  const auto matters = [&](const Transfer& other) {
    return other.number < transfer.number && !other.is_complete() &&
           (other.direction == Direction::out || transfer.direction == Direction::out) &&
           other.touched.overlaps(transfer.touched);
  };
  return std::ranges::any_of(lanes_,
                             [&](const Lane& lane) { return std::ranges::any_of(lane, matters); });
}

/// Returns why it failed; nothing if it did not.
std::string LaneStore::copy(const Transfer& transfer, Block& block, const Worker& worker) {
  try {
    if (transfer.direction == Direction::in) {
      copy_part_in(transfer, block, worker);
    } else {
      medium_->write(block, part_of(transfer.data, transfer.range, block.range), worker);
      block.is_written = true;
    }
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

void LaneStore::copy_part_in(const Transfer& transfer, const Block& block, const Worker& worker) {
  if (!block.is_written) {
    throw Error(fmt::format("cannot read the value \"{}\" from {}: the write of bytes {} to {} of "
                            "it failed",
                            transfer.name, medium_->name(), block.range.begin, block.range.end));
  }
  const Range part{std::max(transfer.range.begin, block.range.begin),
                   std::min(transfer.range.end, block.range.end)};
  medium_->read(block, part.begin, part_of(transfer.into, transfer.range, part), worker);
}

/// Ends what is complete and has nothing before it in its lane.
void LaneStore::retire(Direction direction) {
  Lane& transfers = lane(direction);
  if (transfers.empty()) return;
  for (; !transfers.empty() && transfers.front().is_complete(); transfers.pop_front()) {
    Transfer& first = transfers.front();
    if (!first.failure.empty()) {
      failures_.emplace(first.number, std::move(first.failure));
    } else {
      (direction == Direction::out ? counters_.bytes_out : counters_.bytes_in) +=
          first.range.bytes();
    }
  }
  if (transfers.empty()) counters_.copy_seconds += seconds_since(busy_since_[index_of(direction)]);
}

}  // namespace lowtide::slower
