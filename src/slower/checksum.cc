#include "slower/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace lowtide::slower {

std::uint64_t checksum(std::span<const std::byte> data) {
  return XXH3_64bits(data.data(), data.size());
}

}  // namespace lowtide::slower
