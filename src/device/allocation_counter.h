#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <unordered_map>

#include "base/bytes.h"

namespace lowtide::device {

/// Adds up what an allocator has given and not taken back, and remembers the most. Thread-safe.
class AllocationCounter {
 public:
  void add(const void* data, std::size_t bytes);
  /// Does nothing for memory that was not added.
  void remove(const void* data);

  Bytes now() const { return now_; }
  Bytes peak() const { return peak_; }  ///< since reset_peak()
  void reset_peak() { peak_ = now_.load(); }

 private:
  /// Addresses are spread over several tables, so that threads seldom wait for each other.
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
