#pragma once

#include <cstdint>
#include <string>

namespace lowtide {

/// A number of bytes. Signed, so that differences are safe.
using Bytes = std::int64_t;

/// "1.50 GiB", "800 MiB", "12 B": text for people. Programs get plain numbers.
std::string format_bytes(Bytes bytes);

/// Addresses in an arena are multiples of it, unless the device asks for more: as vector kernels
/// and c10 expect.
inline constexpr Bytes kArenaAlignment = 64;

/// Rounds up to a multiple of `alignment` (a power of two).
constexpr Bytes align_up(Bytes bytes, Bytes alignment) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

}  // namespace lowtide
