#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <unordered_map>

#include "base/bytes.h"

namespace lowtide::device {

/// Sums the live memory of an allocator and keeps the peak. Thread-safe.
class AllocationCounter {
 public:
  void add(const void* data, std::size_t bytes);
  /// Ignores memory that was not added.
  void remove(const void* data);

  Bytes now() const { return now_; }
  Bytes peak() const { return peak_; }  ///< since reset_peak()
  void reset_peak() { peak_ = now_.load(); }

 private:
  /// Addresses are distributed over several tables, so that threads rarely wait for each other.
  struct Table {
    std::mutex mutex;
    std::unordered_map<const void*, std::size_t> bytes;
  };
  Table& table_of(const void* data);

  std::array<Table, 16> tables_;
  std::atomic<Bytes> now_ = 0;
  std::atomic<Bytes> peak_ = 0;
};

}  // namespace lowtide::device
