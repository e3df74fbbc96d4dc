#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "base/control.h"
#include "remat/moves.h"

namespace lowtide::strategy::search {

/// Makes a plan fit within a limit of bytes. As long as it does not, it drops what costs least for
/// the bytes above the limit, summed over the stages, that this saves: one value, or all that
/// several ops make from one, until its next use (the greedy rule of Chvátal, "A greedy heuristic
/// for the set-covering problem", 1979). In the end reruns go that the plan fits without.
class Relief {
 public:
  Relief(const remat::StageGraph& graph, Bytes limit);

  /// Tries of drops in vain, one after the other, until what is best so far will do.
  static constexpr int kHasty = 128;
  static constexpr int kThorough = std::numeric_limits<int>::max();

  /// From these events on. Nothing when no way is left, control says stop, or the plan would cost
  /// more than `most_cost`.
  std::optional<std::vector<remat::Event>> run(const std::vector<remat::Event>& start,
                                               double most_cost, const Control& control,
                                               int patience = kThorough);

 private:
  /// Reruns that are added together.
  struct Drop {
    std::vector<remat::Event> events;
    double bytes = 0;   ///< of what they make
    bool all = false;   ///< whether everything that is not there is made again as well
    int index = 0;      ///< into rated_
    double ratio = 0;   ///< cost for a byte above the limit in one stage, at least
  };
  /// What a drop cost when it was last tried.
  struct Rated {
    int stage = -1;  ///< of its first event
    int time = 0;
    double ratio = 0;
  };

  bool round(const Control& control);
  std::vector<Drop> drops_over(int stage) const;
  bool drop_best(std::vector<Drop> drops, const Control& control);
  bool take(Drop& drop, double most_ratio);
  double least_ratio(const Drop& drop) const;
  void remember(const Drop& drop);
  double most_saved(const Drop& drop) const;
  double try_drop(const Drop& drop, double most_ratio);
  void count_over();
  int fullest_stage() const;

  const remat::StageGraph& graph_;
  remat::EventPlan plan_;
  remat::Moves moves_;
  std::vector<int> choices_;  // values worth dropping
  std::vector<int> over_;     // per stage: how many before it are above the limit
  std::vector<Rated> rated_;  // per value and kind of drop
  std::vector<int> changed_;  // per stage: when something was last dropped until then
  int time_ = 0;              // drops made so far
  double ratio_ = 0;          // of the last round's best drop
  double most_cost_ = 0;
  int patience_ = kThorough;
};

}  // namespace lowtide::strategy::search
