#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "base/control.h"
#include "remat/moves.h"

namespace lowtide::strategy::search {

/// Makes a plan fit within a limit of bytes. While it does not fit, makes the drop with the least
/// cost per saved byte above the limit, summed over the stages. A drop frees one value, or all
/// outputs of several of its readers, until the next use (the greedy rule of Chvátal, "A greedy
/// heuristic for the set-covering problem", 1979). In the end removes reruns that are not needed.
class Relief {
 public:
  Relief(const remat::StageGraph& graph, Bytes limit);

  /// The number of unsuccessful tries in a row after which the best drop so far is accepted.
  static constexpr int kHasty = 128;
  static constexpr int kThorough = std::numeric_limits<int>::max();

  /// Starts from these events. Nothing when no drop is left, control says stop, or the plan would
  /// cost more than `most_cost`.
  std::optional<std::vector<remat::Event>> run(const std::vector<remat::Event>& start,
                                               double most_cost, const Control& control,
                                               int patience = kThorough);

 private:
  /// Reruns that are added together.
  struct Drop {
    std::vector<remat::Event> events;
    double bytes = 0;  ///< of their outputs
    bool all = false;  ///< whether all missing inputs are made again as well
    int index = 0;     ///< into rated_
    double ratio = 0;  ///< lower bound on the cost per byte above the limit and stage
  };
  /// The result of a drop when it was last tried.
  struct Rated {
    int stage = -1;  ///< of its first event
    int time = 0;
    double ratio = 0;
  };

  bool round(const Control& control);
  std::vector<Drop> drops_over(int stage, const Control& control) const;
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
  std::vector<int> over_;     // per stage: number of earlier stages above the limit
  std::vector<Rated> rated_;  // per value and kind of drop
  std::vector<int> changed_;  // per stage: time of the last drop there
  int time_ = 0;              // drops made so far
  double ratio_ = 0;          // of the last round's best drop
  double most_cost_ = 0;
  int patience_ = kThorough;
};

}  // namespace lowtide::strategy::search
