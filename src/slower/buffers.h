#pragma once

#include <condition_variable>
#include <mutex>
#include <span>
#include <vector>

#include "slower/aligned_memory.h"

namespace lowtide::slower {

/// Host memory that copies to and from files go through, one piece for each copy at a time. Stores
/// may share it.
class Buffers {
 public:
  /// A piece that nobody else has meanwhile. The buffers must outlive it.
  class Lease {
   public:
    Lease(Buffers& of, std::byte* data) : of_(of), data_(data) {}
    ~Lease() { of_.give_back(data_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    std::span<std::byte> first(Bytes bytes) const { return {data_, at(bytes)}; }

   private:
    Buffers& of_;
    std::byte* const data_;
  };

  /// `count` pieces, at least one, of `piece_bytes` each, at multiples of kPage.
  Buffers(int count, Bytes piece_bytes);

  Bytes bytes() const { return static_cast<Bytes>(pieces_.size()) * piece_bytes_; }
  Bytes piece_bytes() const { return piece_bytes_; }
  /// Waits until a piece is free.
  Lease take();

 private:
  void give_back(std::byte* data);

  const Bytes piece_bytes_;
  std::vector<AlignedMemory> pieces_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable given_back_;
  std::vector<std::byte*> free_;
};

}  // namespace lowtide::slower
