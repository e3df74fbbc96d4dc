#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "slower/aligned_memory.h"

namespace lowtide::slower {

inline constexpr Bytes kMiB = Bytes{1} << 20;

/// Host memory of a value, at some distance from a page, with bytes of its own.
class Value {
 public:
  Value(Bytes bytes, Bytes shift, unsigned seed)
      : memory_(aligned_memory(bytes + shift)), shift_(shift), bytes_(bytes) {
    std::mt19937_64 random(seed);
    const std::span<std::byte> data = span();
    for (std::size_t i = 0; i < data.size(); i += sizeof(std::uint64_t)) {
      const std::uint64_t word = random();
      std::memcpy(&data[i], &word, std::min(sizeof word, data.size() - i));
    }
  }
  std::span<std::byte> span() const { return {memory_.get() + shift_, std::size_t(bytes_)}; }
  std::vector<std::byte> content() const { return {span().begin(), span().end()}; }

 private:
  AlignedMemory memory_;
  Bytes shift_;
  Bytes bytes_;
};

}  // namespace lowtide::slower
