#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <variant>

#include "base/bytes.h"

namespace lowtide {

/// Larger than the needs of any plan; the sum of a few of these does not overflow.
inline constexpr Bytes kUnlimitedBytes = std::numeric_limits<Bytes>::max() / 4;

/// The memory that a step may hold, as the user gives it. Parsed once, where the text arrives.
struct Budget {
  struct Unlimited {};
  struct Share {
    double percent;  ///< of the keep-all peak: 60 for "60%"
  };
  std::variant<Unlimited, Bytes, Share> value = Unlimited();

  bool is_limited() const { return !std::holds_alternative<Unlimited>(value); }
  /// The budget in bytes; a share is of `keep_all_peak`. kUnlimitedBytes without a limit.
  Bytes resolve(Bytes keep_all_peak) const;
};

/// Reads an amount ("800000000", "512MB", "1.5GiB") or a share of the keep-all peak ("60%").
/// Throws InputError that names the accepted forms when `text` is none of them.
Budget parse_budget(std::string_view text);

/// Reads an amount, not a share. Throws InputError that names the accepted forms; `what` names the
/// amount in it.
Bytes parse_amount(std::string_view text, std::string_view what);

/// A text that parse_budget() reads back; empty without a limit.
std::string format_budget(const Budget& budget);

}  // namespace lowtide
