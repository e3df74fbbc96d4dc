#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "device/allocation.h"
#include "packing/holes.h"
#include "simulated/hardware/streams.h"

namespace lowtide::simulated {

/// Sizes of blocks are multiples of this, as those of CUDA's caching allocator.
constexpr Bytes kBlockAlignment = 512;

/// One file in memory, mapped twice: at device addresses, where any access is a fault, and at host
/// addresses, where kernels read and write the same bytes.
class TwoMappings {
 public:
  /// Throws Error when the system refuses.
  explicit TwoMappings(Bytes bytes);
  ~TwoMappings();
  TwoMappings(const TwoMappings&) = delete;
  TwoMappings& operator=(const TwoMappings&) = delete;

  std::byte* device() const { return device_; }
  std::byte* host() const { return host_; }
  Bytes bytes() const { return bytes_; }
  /// The system takes back what is stored from `offset` on.
  void discard_from(Bytes offset) const;

 private:
  std::byte* map(int protection) const;

  Bytes bytes_;
  int file_ = -1;
  std::byte* device_ = nullptr;
  std::byte* host_ = nullptr;
};

/// The device's memory. A released block serves the next requests of its stream at once; before it
/// serves another stream, the work that its own stream was asked for until the release is done.
class Memory {
 public:
  Memory(Bytes bytes, Streams& streams);

  Bytes bytes() const { return mappings_.bytes(); }
  const std::byte* host_begin() const { return mappings_.host(); }
  Bytes free_bytes() const;
  bool on_device(const void* address) const;
  bool on_host(const void* address) const;
  /// The two addresses of a byte. Null stays null.
  std::byte* to_host(const void* device) const;
  std::byte* to_device(const void* host) const;

  /// A block for the work of `stream`; `bytes` > 0. Throws c10::OutOfMemoryError.
  std::byte* allocate(Bytes bytes, StreamId stream);
  /// The same, released only by release_kept().
  std::byte* allocate_kept(Bytes bytes, StreamId stream);
  /// Ignores addresses that are not the begin of a block, and kept blocks.
  void release(const void* device);
  void release_kept(const void* device);
  /// The block's bytes stay until the work that `stream` has at the release is done. Ignores
  /// addresses that are not the begin of a block.
  void use(const void* device, StreamId stream);

  /// The `count`-th request from now on is refused, as though no memory were left; 0: none is, also
  /// where an earlier call asked for it.
  void refuse_request(std::int64_t count);

  c10::CachingDeviceAllocator::DeviceStats stats() const;
  /// Of the bytes that were asked for, without the rounding of blocks.
  device::AllocationCounters& counters() { return counters_; }
  void reset_accumulated();
  void reset_peaks();
  /// Finishes all work, and gives unused memory back to the system.
  void trim();

 private:
  struct Block {
    Bytes bytes = 0;  ///< rounded
    Bytes asked = 0;
    StreamId stream = 0;
    bool kept = false;
    std::vector<StreamId> users;
  };
  /// A released range that work of others may use until all moments are reached.
  struct Awaited {
    Bytes offset = 0, bytes = 0;
    std::vector<Moment> moments;
  };

  std::byte* allocate_block(Bytes bytes, StreamId stream, bool kept);
  /// Negative when no place is left.
  Bytes take(Bytes bytes);
  Bytes take_or_wait(Bytes bytes);
  void give(Bytes offset, const Block& block);
  void forget(const void* device);
  void give_reached();
  void finish_others(Bytes offset, Bytes bytes, StreamId stream);
  void count(const Block& block);
  [[noreturn]] void refuse(Bytes asked);

  TwoMappings mappings_;
  Streams& streams_;
  mutable std::mutex mutex_;
  packing::Holes holes_;                     ///< of all bytes: it never grows
  std::unordered_map<Bytes, Block> blocks_;  ///< by offset
  std::vector<Awaited> awaited_;             ///< not in holes_ yet
  std::vector<Awaited> recent_;              ///< in holes_, with work of the stream that had them
  Bytes in_blocks_ = 0;                      ///< of blocks_
  Bytes in_awaited_ = 0;
  c10::CachingDeviceAllocator::DeviceStats stats_;
  device::AllocationCounters counters_;
  std::int64_t to_refused_ = 0;  ///< requests until one is refused, that one included; 0: none is
};

}  // namespace lowtide::simulated
