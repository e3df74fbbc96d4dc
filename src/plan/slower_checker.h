#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "plan/taken_bytes.h"

namespace lowtide {

/// Follows the copies of a plan between memory and slower memory: when they end, and where they
/// lie. Times are those of the plan's cost. Functions throw BrokenRule.
class SlowerChecker {
 public:
  enum class Way : std::uint8_t { none, out, in };

  SlowerChecker(const Graph& graph, const Plan& plan);

  /// Of the copy of this storage that is under way.
  Way way(TensorId storage) const { return moving_[storage].way; }
  bool is_moving(TensorId storage) const { return way(storage) != Way::none; }
  bool has_copy(TensorId storage) const { return copied_[storage]; }

  /// It has a copy from the start of the step to its end.
  void add_resident(TensorId storage);
  void copy_out(TensorId storage, double now);
  /// Precondition: has_copy().
  void copy_in(TensorId storage, double now) { start(storage, Way::in, now); }
  /// Returns when the copy that is under way ends. `at`: the index of the action that waits.
  double end_copy(TensorId storage, std::int32_t at);

  void check_claims() const;
  /// After the claims, as the size of the first place is one.
  void check_budgets() const;

 private:
  /// A copy that is under way, and when it ends.
  struct Moving {
    Way way = Way::none;
    double end = 0;
  };
  /// When each lane of a place has ended all its copies so far.
  struct LaneEnds {
    double out = 0, in = 0;
  };

  std::vector<std::int32_t> last_copies() const;
  void start(TensorId storage, Way way, double now);
  const Copy* find_copy(TensorId storage) const;
  const Copy& copy_of(TensorId storage) const;
  void place_copy(TensorId storage);
  bool is_in_second_place(TensorId storage) const;

  const Graph& graph_;
  const Plan& plan_;
  std::vector<bool> copied_;             // per storage: has a copy in slower memory
  std::vector<Moving> moving_;           // per storage
  std::vector<std::int32_t> last_copy_;  // per storage: the last action that copies or awaits it
  TakenBytes taken_;
  Bytes first_top_ = 0;                // of the copies in the first of two places
  LaneEnds first_ends_, second_ends_;  // of the places
};

}  // namespace lowtide
