#pragma once

#include <optional>
#include <vector>

#include "base/control.h"
#include "strategy/search/moves.h"

namespace lowtide {

/// Makes a plan fit within a limit of bytes. As long as it does not, it drops what costs least for
/// the bytes above the limit, summed over the stages, that this saves: one value, or all that
/// several ops make from one, until its next use (the greedy rule of Chvátal, "A greedy heuristic
/// for the set-covering problem", 1979). In the end reruns go that the plan fits without.
class Relief {
 public:
  Relief(const StageGraph& graph, Bytes limit);

  /// From these events on. Nothing when no way is left, control says stop, or the plan would cost
  /// more than `most_cost`.
  std::optional<std::vector<Event>> run(const std::vector<Event>& start, double most_cost,
                                        const Control& control);

 private:
  /// Reruns that are added together.
  struct Drop {
    std::vector<Event> events;
    double bytes = 0;   ///< of what they make
    bool all = false;   ///< whether everything that is not there is made again as well
    double ratio = 0;   ///< cost for a byte above the limit in one stage
  };

  bool round(const Control& control);
  std::vector<Drop> drops_over(int stage) const;
  void rate(std::vector<Drop>& drops, const Control& control);
  double try_drop(const Drop& drop, double most_ratio);
  void count_over();
  int fullest_stage() const;

  const StageGraph& graph_;
  EventPlan plan_;
  Moves moves_;
  std::vector<int> choices_;  // values worth dropping
  std::vector<int> over_;     // per stage: how many before it are above the limit
  double ratio_ = 0;          // of the last round's best drop
  double most_cost_ = 0;
};

}  // namespace lowtide
