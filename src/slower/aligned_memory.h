#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "base/at.h"
#include "base/bytes.h"

namespace lowtide::slower {

/// Addresses, offsets and sizes of copies past the page cache are multiples of it.
inline constexpr Bytes kPage = 4096;

constexpr Bytes align_down(Bytes bytes, Bytes alignment) { return bytes & ~(alignment - 1); }

struct FreeAligned {
  void operator()(std::byte* data) const { ::operator delete[](data, std::align_val_t{kPage}); }
};

/// Memory at a multiple of kPage.
using AlignedMemory = std::unique_ptr<std::byte[], FreeAligned>;

/// With undefined content. Throws std::bad_alloc.
inline AlignedMemory aligned_memory(Bytes bytes) {
  return AlignedMemory(
      static_cast<std::byte*>(::operator new[](at(bytes), std::align_val_t{kPage})));
}

}  // namespace lowtide::slower
