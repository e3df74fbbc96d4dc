#include "device/allocation_counter.h"

#include <cstdint>

namespace lowtide::device {

AllocationCounter::Table& AllocationCounter::table_of(const void* data) {
  return tables_[(reinterpret_cast<std::uintptr_t>(data) / 64) % tables_.size()];
}

void AllocationCounter::add(const void* data, std::size_t bytes) {
  Table& table = table_of(data);
  {
    const std::scoped_lock lock(table.mutex);
    table.bytes[data] = bytes;
  }
  const Bytes now = now_ += static_cast<Bytes>(bytes);
  Bytes peak = peak_;
  while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
  }
}

void AllocationCounter::remove(const void* data) {
  Table& table = table_of(data);
  const std::scoped_lock lock(table.mutex);
  const auto entry = table.bytes.find(data);
  if (entry == table.bytes.end()) return;
  now_ -= static_cast<Bytes>(entry->second);
  table.bytes.erase(entry);
}

}  // namespace lowtide::device
