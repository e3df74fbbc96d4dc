#pragma once

#include <optional>

#include "base/bytes.h"

namespace lowtide::planner {

/// Which budget to ask a strategy for next. A strategy sees the peak of a plan and not its layout,
/// so the arena may not fit though the peak does. Then the strategy is asked for less; and for more
/// again when that was too little.
class Bracket {
 public:
  explicit Bracket(Bytes budget) : budget_(budget) {}

  /// Whether an answer has come already.
  bool has_begun() const { return upper_ || lower_ >= 0; }
  /// Whether some answer's arena did not fit.
  bool has_upper() const { return upper_.has_value(); }

  /// What to ask for after an answer, or nothing when no other budget is worth an attempt:
  /// no plan was found;
  std::optional<Bytes> after_infeasible(Bytes asked);
  /// the arena exceeds the budget by `missing` bytes. `has_plan`: an earlier one fits;
  std::optional<Bytes> after_too_large(Bytes asked, Bytes missing, bool has_plan);
  /// the arena fits.
  std::optional<Bytes> after_fitting(Bytes asked);

 private:
  std::optional<Bytes> between() const;

  const Bytes budget_;
  std::optional<Bytes> upper_;  // the least that was asked for whose layout did not fit
  Bytes lower_ = -1;            // the most that was asked for without a plan, or whose layout fits
  double margin_ = 1;           // of missing bytes, as long as nothing fits
};

}  // namespace lowtide::planner
