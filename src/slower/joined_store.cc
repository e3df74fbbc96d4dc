#include "slower/joined_store.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "base/at.h"

namespace lowtide::slower {
namespace {

Bytes bytes_of(const std::unique_ptr<Store>& store) {
  return store == nullptr ? 0 : store->bytes();
}

/// The tickets of both stores in turn.
Ticket joined(Ticket of_store, bool is_second) {
  return {2 * of_store.number + (is_second ? 1 : 0)};
}
Ticket of_store(Ticket joined) { return {joined.number / 2}; }

}  // namespace

JoinedStore::JoinedStore(std::unique_ptr<Store> first, std::unique_ptr<Store> second)
    : first_(std::move(first)), second_(std::move(second)), border_(bytes_of(first_)) {
  if (first_ == nullptr && second_ == nullptr) throw std::logic_error("no store to join");
}

Bytes JoinedStore::bytes() const { return border_ + bytes_of(second_); }

bool JoinedStore::serves_host_memory() const {
  return (first_ ? first_ : second_)->serves_host_memory();
}

Bytes JoinedStore::buffer_bytes() const {
  return (first_ ? first_->buffer_bytes() : 0) + (second_ ? second_->buffer_bytes() : 0);
}

bool JoinedStore::is_second(Bytes offset, std::size_t bytes) const {
  const bool begins_in_second = offset >= border_;
  const bool is_outside = offset < 0 || offset > this->bytes();
  if (is_outside || bytes > at((begins_in_second ? this->bytes() : border_) - offset)) {
    throw std::logic_error(
        fmt::format("{} bytes at {} lie outside a store of {} bytes or across its border at {}",
                    bytes, offset, this->bytes(), border_));
  }
  return begins_in_second && second_ != nullptr;
}

Ticket JoinedStore::write(Bytes offset, std::span<const std::byte> data, std::string_view name) {
  const bool second = is_second(offset, data.size());
  return joined(
      second ? second_->write(offset - border_, data, name) : first_->write(offset, data, name),
      second);
}

Ticket JoinedStore::read(Bytes offset, std::span<std::byte> into, std::string_view name) {
  const bool second = is_second(offset, into.size());
  return joined(
      second ? second_->read(offset - border_, into, name) : first_->read(offset, into, name),
      second);
}

Store& JoinedStore::store_of(Ticket ticket) const {
  const auto& store = ticket.number % 2 == 1 ? second_ : first_;
  if (ticket.number >= 0 && store != nullptr) return *store;
  throw std::logic_error(fmt::format("no copy of this store has the ticket {}", ticket.number));
}

void JoinedStore::wait(Ticket ticket) { store_of(ticket).wait(of_store(ticket)); }

bool JoinedStore::done(Ticket ticket) const { return store_of(ticket).done(of_store(ticket)); }

PlaceCounters JoinedStore::counters_of_places() const {
  return {first_ ? first_->counters() : Counters{}, second_ ? second_->counters() : Counters{}};
}

}  // namespace lowtide::slower
