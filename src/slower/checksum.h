#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lowtide::slower {

/// A 64-bit checksum of bytes, to tell wrong bytes from those that were written. Not against
/// adversaries, and only for this process: another library may give another number.
std::uint64_t checksum(std::span<const std::byte> data);

}  // namespace lowtide::slower
