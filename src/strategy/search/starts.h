#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "remat/event_plan.h"

namespace lowtide::strategy::search {

/// A plan from which annealing may begin.
struct Start {
  std::vector<remat::Event> events;
  double cost = 0;
  Bytes peak = 0;
  double rating = 0;  ///< the annealer's: cost and a penalty for bytes above the budget
};

/// The starts of a search within a budget, and what may be made of them.
class Starts {
 public:
  Starts(const remat::StageGraph& graph, Bytes budget) : graph_(&graph), budget_(budget) {}

  void add(Start start) { starts_.push_back(std::move(start)); }
  bool any_within(Bytes limit) const;
  bool any_fits() const { return any_within(budget_); }
  /// The cheapest that fits; null when none does.
  const Start* cheapest() const;
  /// Whether addresses are sure to fit within the budget, or nearly so.
  static bool is_lean(const Start& start, Bytes budget);

  /// The cheapest that fits, the best by rating, and the leanest that is cheaper than the first;
  /// each once. There must be one.
  std::vector<Start> chosen() const;
  /// The cheapest lean one, or else the leanest that fits; null when none does.
  const Start* cheapest_lean() const;
  /// The cheapest mixture (mixture.h) within the limit of a start that is within it and one of some
  /// that are not and from which a low cost is to be expected: what it really costs depends on
  /// where in the graph the two differ.
  std::optional<std::vector<remat::Event>> mixture_within(Bytes limit) const;

 private:
  bool fits(const Start& start) const { return start.peak <= budget_; }
  /// Those above the limit that are cheaper, best first by the cost in proportion.
  std::vector<const Start*> to_mix_with(const Start& leaner, Bytes limit) const;

  const remat::StageGraph* graph_;  // so that it may be assigned
  Bytes budget_;
  std::vector<Start> starts_;
};

}  // namespace lowtide::strategy::search
