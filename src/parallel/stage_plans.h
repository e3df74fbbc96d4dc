#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "parallel/units/unit.h"

namespace lowtide::parallel {

/// A plan for each unit of a stage.
struct StagePlan {
  Bytes held_bytes = 0;     ///< for each micro-batch in flight
  Bytes working_bytes = 0;  ///< the most of its units
  double backward_seconds = 0;
  std::vector<int> plans = {};  ///< per unit: which of its plans
};

/// All best plans of any stage of a model: for each range of units, the sums of one plan for each
/// unit such that no other holds less and takes less time (Nemhauser and Ullmann, Discrete dynamic
/// programming and capital allocation, 1969). Ranges with the same units share them.
///
/// Exact as long as a range has at most kMostSums sums and units at most kMostLimits different
/// working sets. Beyond, held bytes are told apart in kMostSums steps, and of working sets larger
/// ones stand for smaller ones: a plan may then be a little slower than the fastest, and always
/// fits.
class StagePlans {
 public:
  /// `units` by kind; `sequence`: the kinds of the model's units.
  StagePlans(std::vector<Unit> units, std::vector<int> sequence);

  /// The fastest plan of the units first .. last that fits: in_flight x held bytes + working bytes
  /// <= available, where working bytes are at least those of others beside these units.
  std::optional<StagePlan> fastest(int first, int last, Bytes available, std::int64_t in_flight,
                                   Bytes working_of_others = 0);
  /// The same with StagePlan::plans, which otherwise stay empty.
  std::optional<StagePlan> fastest_with_plans(int first, int last, Bytes available,
                                              std::int64_t in_flight, Bytes working_of_others = 0);
  /// The fewest bytes that `available` must be.
  Bytes least_bytes(int first, int last, std::int64_t in_flight);

  int kind(int position) const { return sequence_[static_cast<std::size_t>(position)]; }
  const Unit& unit(int position) const { return units_[static_cast<std::size_t>(kind(position))]; }
  int num_units() const { return static_cast<int>(sequence_.size()); }
  /// Of the units first .. last: their state, what the first and the last unit of the model share
  /// counted once.
  StateBytes state(int first, int last) const;
  /// The largest state of one of them.
  StateBytes largest_state(int first, int last) const;
  double forward_seconds(int first, int last) const;
  double least_backward_seconds(int first, int last) const;

  static constexpr std::size_t kMostSums = 500;
  static constexpr std::size_t kMostLimits = 8;

 private:
  struct Sum {
    Bytes held;
    double seconds;
    int plan;    // of the last unit
    int before;  // index of the sum of the units before it
  };
  using Sums = std::vector<Sum>;  // held ascending, seconds descending
  /// Kinds and how many of each follow one another.
  using Runs = std::vector<std::pair<int, int>>;
  /// The sums of all ranges with the same units.
  struct Family {
    Runs runs;
    Family* before = nullptr;                 // without the last unit; null: nothing is left
    std::vector<std::unique_ptr<Sums>> sums;  // by limit; null: not made yet
  };
  /// Totals of the units before a position.
  struct Before {
    StateBytes state;
    double forward = 0, least_backward = 0;
  };

  bool has_both_ends(int first, int last) const { return first == 0 && last == num_units() - 1; }
  Family& family(int first, int last);
  Family& family_of(const Runs& runs);
  /// With plans that work in at most limits_[limit] bytes.
  const Sums& sums(Family& family, std::size_t limit);
  Sums extended(const Sums& before, int kind, Bytes limit) const;
  /// Those of which no other holds no more and takes no longer.
  static Sums best_sums(Sums all);
  /// The fastest of each of kMostSums steps of held bytes.
  static Sums best_of_steps(const Sums& all);
  /// A sum, and where it is.
  struct Found {
    std::size_t limit, index;
    Sum sum;
  };
  std::optional<Found> fastest_sum(Family& range, Bytes available, std::int64_t in_flight,
                                   Bytes working_of_others);
  std::vector<int> traced(Family* family, std::size_t limit, std::size_t index);

  std::vector<Unit> units_;
  std::vector<int> sequence_;
  std::vector<Bytes> limits_;   // working bytes of plans, ascending
  std::vector<Before> before_;  // per position, and at the end
  std::map<Runs, Family> families_;
  std::vector<Family*> of_range_;  // by first and last unit; null: not looked up yet
};

}  // namespace lowtide::parallel
