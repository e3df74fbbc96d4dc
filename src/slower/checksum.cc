#include "slower/checksum.h"

#include <functional>
#include <string_view>

namespace lowtide::slower {

// The standard library's hash (libstdc++: MurmurHash64A) needs no further package. A word that
// changes always changes it, and it is faster than a disk.
std::uint64_t checksum(std::span<const std::byte> data) {
  static_assert(sizeof(std::size_t) == sizeof(std::uint64_t));
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(data.data()), data.size()});
}

}  // namespace lowtide::slower
