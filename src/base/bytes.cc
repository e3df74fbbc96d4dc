#include "base/bytes.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

namespace lowtide {

std::string format_bytes(Bytes bytes) {
  constexpr std::array<std::string_view, 5> kNames{"KiB", "MiB", "GiB", "TiB", "PiB"};
  // The magnitude as a double: negating the smallest integer would overflow.
  double amount = std::abs(static_cast<double>(bytes));
  const char* sign = bytes < 0 ? "-" : "";
  if (amount < 1024) return fmt::format("{} B", bytes);
  std::size_t unit = 0;
  amount /= 1024;
  // 1023.5 and more would print as 1024: use the next unit.
  while (amount >= 1023.5 && unit + 1 < kNames.size()) {
    amount /= 1024;
    ++unit;
  }
  const int decimals = amount < 9.995 ? 2 : amount < 99.95 ? 1 : 0;
  return fmt::format("{}{:.{}f} {}", sign, amount, decimals, kNames[unit]);
}

}  // namespace lowtide
