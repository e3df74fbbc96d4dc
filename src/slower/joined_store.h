#pragma once

#include <memory>

#include "slower/store.h"

namespace lowtide::slower {

/// Two stores as one: the second begins where the first one ends. Each has its own lanes, so that a
/// copy to one does not hold up those to the other. No copy lies across the border.
class JoinedStore final : public Store {
 public:
  /// For memory of the same kind. Null stands for a store of no bytes; not both.
  JoinedStore(std::unique_ptr<Store> first, std::unique_ptr<Store> second);

  Bytes bytes() const override;
  Bytes first_bytes() const override { return border_; }
  bool serves_host_memory() const override;
  Bytes buffer_bytes() const override;
  Ticket write(Bytes offset, std::span<const std::byte> data, std::string_view name) override;
  Ticket read(Bytes offset, std::span<std::byte> into, std::string_view name) override;
  void wait(Ticket ticket) override;
  bool done(Ticket ticket) const override;
  Counters counters() const override { return counters_of_places().sum(); }
  PlaceCounters counters_of_places() const override;

 private:
  bool is_second(Bytes offset, std::size_t bytes) const;
  Store& store_of(Ticket ticket) const;

  const std::unique_ptr<Store> first_, second_;
  const Bytes border_;
};

}  // namespace lowtide::slower
