#include "largest/size_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "base/error.h"

namespace lowtide::largest {
namespace {

/// How many times the largest size that fits is tried at most: far from there a line says little.
constexpr std::int64_t kMostGrowth = 8;

}  // namespace

SizeSearch::SizeSearch(const Sizes& sizes, Bytes budget, std::optional<std::int64_t> hint)
    : low_(sizes.smallest() / sizes.multiple - 1),
      high_(sizes.last / sizes.multiple + 1),
      multiple_(sizes.multiple),
      first_(low_ + 1),
      last_(high_ - 1),
      budget_(budget),
      hint_(hint ? std::optional(*hint / sizes.multiple) : std::nullopt) {
  if (first_ <= last_) return;
  throw InputError(
      fmt::format("no multiple of {} lies between {} and {}: choose another --multiple, "
                  "--start or --limit (a batch is a multiple of --micro-batches times "
                  "--slices, too).",
                  sizes.multiple, sizes.first, sizes.last));
}

std::optional<std::int64_t> SizeSearch::next() {
  if (high_ - low_ < 2) return std::nullopt;
  const std::int64_t middle = low_ + (high_ - low_) / 2;
  std::optional<std::int64_t> guess = on_line();
  if (!guess) guess = hint_;
  if (!guess) return middle * multiple_;
  if (low_ < *guess && *guess < high_) {
    step_ = 1;
    return *guess * multiple_;
  }
  const std::int64_t step = step_;
  step_ *= 2;
  const bool is_below = *guess <= low_;
  return multiple_ * (is_below ? std::min(low_ + step, middle) : std::max(high_ - step, middle));
}

/// By the two largest sizes whose needs are known, none above the smallest that does not fit.
std::optional<std::int64_t> SizeSearch::on_line() const {
  const auto end = needs_.upper_bound(high_);
  if (std::distance(needs_.begin(), end) < 2) return std::nullopt;
  const auto& [larger, more] = *std::prev(end);
  const auto& [size, less] = *std::prev(end, 2);
  const double slope =
      std::max(1.0, static_cast<double>(more - less) / static_cast<double>(larger - size));
  const double beyond = std::floor(static_cast<double>(budget_ - less) / slope);
  const auto most =
      static_cast<double>(high_ <= last_ ? high_ : kMostGrowth * std::max(low_, first_));
  return static_cast<std::int64_t>(std::clamp(static_cast<double>(size) + beyond, 0.0, most));
}

void SizeSearch::add(std::int64_t size, bool fits) {
  const std::int64_t count = size / multiple_;
  if (fits) {
    low_ = std::max(low_, count);
    high_ = std::max(high_, low_ + 1);
  } else if (count > low_) {
    high_ = std::min(high_, count);
  }
}

void SizeSearch::add_need(std::int64_t size, Bytes bytes) { needs_[size / multiple_] = bytes; }

std::optional<std::int64_t> SizeSearch::largest() const {
  return low_ >= first_ ? std::optional(low_ * multiple_) : std::nullopt;
}

std::optional<std::int64_t> SizeSearch::too_large() const {
  return high_ <= last_ ? std::optional(high_ * multiple_) : std::nullopt;
}

int SizeSearch::tries_by_halving() const {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(high_ - low_ - 1)));
}

}  // namespace lowtide::largest
