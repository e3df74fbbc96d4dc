#include "simulated/hardware/streams.h"

#include <array>
#include <cstring>
#include <utility>

namespace lowtide::simulated {
namespace {

thread_local StreamId this_stream = 0;

/// Streams that do nothing before they must, and streams that are almost at once.
constexpr std::array<double, 4> kZeal = {0.0, 0.3, 0.7, 0.95};
/// So many calls have the same zeal.
constexpr int kCallsPerZeal = 64;

}  // namespace

StreamId current_stream() { return this_stream; }

StreamId exchange_current_stream(StreamId stream) { return std::exchange(this_stream, stream); }

Streams::Streams(bool late, std::uint64_t seed) : late_(late), random_(seed), queues_(1) {
  draw_zeal();
}

StreamId Streams::add() {
  const std::scoped_lock lock(mutex_);
  queues_.emplace_back();
  return static_cast<StreamId>(queues_.size()) - 1;
}

std::int64_t Streams::count() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::int64_t>(queues_.size());
}

bool Streams::may_race() const {
  const std::scoped_lock lock(mutex_);
  return late_ && queues_.size() > 1;
}

void Streams::reseed(std::uint64_t seed) {
  finish_all();
  const std::scoped_lock lock(mutex_);
  random_.seed(seed);
  calls_ = 0;
  draw_zeal();
}

void Streams::copy(StreamId stream, Copy copy) {
  const std::scoped_lock lock(mutex_);
  push(stream, std::move(copy));
}

void Streams::wait(StreamId stream, Moment moment) {
  const std::scoped_lock lock(mutex_);
  if (moment.stream != stream && !is_reached(moment)) push(stream, moment);
}

Moment Streams::record(StreamId stream, std::shared_ptr<TimeStamp> stamp) {
  const std::scoped_lock lock(mutex_);
  const Moment moment{stream, end_of(stream).count + 1};
  push(stream, Mark{std::move(stamp)});
  return moment;
}

Moment Streams::end(StreamId stream) const {
  const std::scoped_lock lock(mutex_);
  return end_of(stream);
}

bool Streams::poll(Moment moment) {
  const std::scoped_lock lock(mutex_);
  if (draw() < 0.5) do_one();
  return is_reached(moment);
}

bool Streams::reached(Moment moment) const {
  const std::scoped_lock lock(mutex_);
  return is_reached(moment);
}

void Streams::finish(Moment moment) {
  const std::scoped_lock lock(mutex_);
  finish_held(moment);
}

void Streams::finish_all() {
  const std::scoped_lock lock(mutex_);
  while (do_one()) {
  }
}

void Streams::drop_owners() {
  std::vector<std::shared_ptr<const void>> owners;
  const std::scoped_lock lock(mutex_);
  owners.swap(owners_);
}

bool Streams::is_reached(Moment moment) const {
  return queues_[static_cast<std::size_t>(moment.stream)].done >= moment.count;
}

Moment Streams::end_of(StreamId stream) const {
  const Queue& queue = queues_[static_cast<std::size_t>(stream)];
  return {stream, queue.done + static_cast<std::int64_t>(queue.work.size())};
}

void Streams::push(StreamId stream, Work work) {
  queues_[static_cast<std::size_t>(stream)].work.push_back(std::move(work));
  if (late_) {
    do_some();
  } else {
    finish_held(end_of(stream));
  }
}

/// Recurses at most once per stream: a wait is for work that was asked before it, and the streams
/// that led here have done their work up to the waits that led here.
void Streams::finish_held(Moment moment) {
  Queue& queue = queues_[static_cast<std::size_t>(moment.stream)];
  while (queue.done < moment.count) {
    if (const Moment* awaited = std::get_if<Moment>(&queue.work.front())) finish_held(*awaited);
    do_first(queue);
  }
}

void Streams::do_first(Queue& queue) {
  Work& work = queue.work.front();
  if (Copy* copy = std::get_if<Copy>(&work)) {
    std::memcpy(copy->to, copy->from, copy->bytes);
    owners_.push_back(std::move(copy->owner));
  } else if (Mark* mark = std::get_if<Mark>(&work)) {
    mark->stamp->time = std::chrono::steady_clock::now();
  }
  queue.work.pop_front();
  ++queue.done;
}

bool Streams::is_blocked(const Queue& queue) const {
  if (queue.work.empty()) return true;
  const Moment* awaited = std::get_if<Moment>(&queue.work.front());
  return awaited != nullptr && !is_reached(*awaited);
}

void Streams::do_some() {
  if (++calls_ % kCallsPerZeal == 0) draw_zeal();
  while (draw() < zeal_ && do_one()) {
  }
}

/// Does the next piece of work of a random stream. Returns false when there is none.
bool Streams::do_one() {
  std::vector<Queue*> ready;
  for (Queue& queue : queues_) {
    if (!is_blocked(queue)) ready.push_back(&queue);
  }
  if (ready.empty()) return false;
  do_first(*ready[random_() % ready.size()]);
  return true;
}

void Streams::draw_zeal() { zeal_ = kZeal[random_() % kZeal.size()]; }

}  // namespace lowtide::simulated
