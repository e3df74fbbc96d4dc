#pragma once

#include <cstdint>
#include <vector>

#include "packing/allocators/pool.h"
#include "packing/packing.h"

namespace lowtide::packing::allocators {

/// One call of an allocator.
struct Request {
  std::int32_t buffer = 0;
  bool gives_back = false;
  bool operator==(const Request&) const = default;
};

/// The calls of a step in order of time; at equal times first releases, then requests, each in list
/// order. Empty buffers make no calls.
std::vector<Request> requests_of(const std::vector<Buffer>& buffers);

/// The most bytes alive at one time, with the sizes in `bytes`.
Bytes most_alive(const std::vector<Buffer>& buffers, const std::vector<Bytes>& bytes);
/// The same with the buffers' own sizes.
Bytes most_alive(const std::vector<Buffer>& buffers);

/// Fragmentation of a pool: height / most bytes alive - 1.
double fragmentation(Bytes height, Bytes most_alive);

/// The memory that an allocator returns for a request.
struct Block {
  Bytes offset = 0, bytes = 0;
};

/// An allocator over offsets from 0 on.
class Allocator {
 public:
  virtual ~Allocator() = default;
  /// A block of at least `bytes` > 0 bytes.
  virtual Block take(Bytes bytes) = 0;
  /// A block that take() gave.
  virtual void give(Block block) = 0;
  /// End of the memory taken so far.
  virtual Bytes height() const = 0;
};

Pooled serve(const std::vector<Buffer>& buffers, Allocator& allocator);

}  // namespace lowtide::packing::allocators
