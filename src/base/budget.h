#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <variant>

#include "base/bytes.h"

namespace lowtide {

/// More than any plan needs, and sums of a few are still representable.
inline constexpr Bytes kUnlimitedBytes = std::numeric_limits<Bytes>::max() / 4;

/// How much memory a step may hold, as a user says it. Parsed once, where the user's text arrives.
struct Budget {
  struct Unlimited {};
  struct Share {
    double percent;  ///< of the keep-all peak: 60 for "60%"
  };
  std::variant<Unlimited, Bytes, Share> value = Unlimited();

  bool is_limited() const { return !std::holds_alternative<Unlimited>(value); }
  /// In bytes, given the keep-all peak that a share refers to; kUnlimitedBytes without a limit.
  Bytes resolve(Bytes keep_all_peak) const;
};

/// Reads an amount ("800000000", "512MB", "1.5GiB") or a share of the keep-all peak ("60%").
/// Throws InputError that names the accepted forms when `text` is none of them.
Budget parse_budget(std::string_view text);

/// A text that parse_budget() reads back; empty without a limit.
std::string format_budget(const Budget& budget);

}  // namespace lowtide
