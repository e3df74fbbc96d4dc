#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace lowtide {

/// A number of bytes. Signed, so that differences are safe.
using Bytes = std::int64_t;

/// "1.50 GiB", "800 MiB", "12 B": for people. Programs get plain numbers.
std::string format_bytes(Bytes bytes);

/// A budget as a user writes it: an amount ("800000000", "512MB", "1.5GiB") or a share of the
/// keep-all peak ("60%").
struct Budget {
  struct Share {
    double of_keep_all;  ///< 0.6 for "60%"
  };
  std::variant<Bytes, Share> value;

  /// The budget in bytes, given the keep-all peak that a share refers to.
  Bytes resolve(Bytes keep_all_peak) const;
};

/// Throws InputError naming the accepted forms when `text` is none of them.
Budget parse_budget(std::string_view text);

/// Rounds up to a multiple of `alignment` (a power of two).
constexpr Bytes align_up(Bytes bytes, Bytes alignment) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

}  // namespace lowtide
