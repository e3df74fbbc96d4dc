#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/bytes.h"

namespace lowtide::largest {

/// The sizes to choose from: the multiples of `multiple` from `first` to `last`.
struct Sizes {
  std::int64_t first = 1;
  std::int64_t last = std::int64_t{1} << 20;
  std::int64_t multiple = 1;

  std::int64_t smallest() const { return (first + multiple - 1) / multiple * multiple; }
};

/// Which size to try next, to find the largest that fits. A size above one that does not fit is
/// taken not to fit either. What a step needs at least is nearly linear in its size: so a line
/// through what two sizes need tells which one to try; where it is off, sizes away from there by
/// steps that grow; without a line, the middle.
class SizeSearch {
 public:
  /// `hint`: the size to try first, and from there the ones beside it, as long as there is no line.
  /// Throws InputError when `sizes` has none.
  SizeSearch(const Sizes& sizes, Bytes budget, std::optional<std::int64_t> hint = std::nullopt);

  /// The size to try now; nothing when none is left that can be the largest.
  std::optional<std::int64_t> next();
  /// Whether a size fits. Nothing that fits is forgotten for a smaller one that did not.
  void add(std::int64_t size, bool fits);
  /// So many bytes a step of this size needs at least.
  void add_need(std::int64_t size, Bytes bytes);

  std::optional<std::int64_t> largest() const;    ///< that fits
  std::optional<std::int64_t> too_large() const;  ///< the smallest that does not, above that
  /// How many more tries halving would take.
  int tries_by_halving() const;

 private:
  std::optional<std::int64_t> on_line() const;

  // In multiples: the largest that fits, and the smallest that does not, or else just outside.
  std::int64_t low_, high_;
  const std::int64_t multiple_, first_, last_;
  const Bytes budget_;
  const std::optional<std::int64_t> hint_;
  std::map<std::int64_t, Bytes> needs_;
  std::int64_t step_ = 1;
};

}  // namespace lowtide::largest
