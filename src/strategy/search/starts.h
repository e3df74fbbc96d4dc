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

/// The starts of a search within a budget, and choices from them.
class Starts {
 public:
  Starts(const remat::StageGraph& graph, Bytes budget) : graph_(&graph), budget_(budget) {}

  void add(Start start) { starts_.push_back(std::move(start)); }
  bool any_within(Bytes limit) const;
  bool any_fits() const { return any_within(budget_); }
  /// The cheapest that fits; null when none does.
  const Start* cheapest() const;
  /// Whether addresses will (almost) surely fit within the budget.
  static bool is_small(const Start& start, Bytes budget);

  /// The cheapest that fits; the best by rating; and, of cheaper ones that do not fit, the one with
  /// the smallest peak; each once. There must be a start.
  std::vector<Start> chosen() const;
  /// The cheapest small one, or else the one with the smallest peak if it fits; null otherwise.
  const Start* cheapest_small() const;
  /// The cheapest mixture (mixture.h) within the limit of a start that is within it and one that is
  /// not. Tries only some pairs with a low expected cost: the true cost depends on where in the
  /// graph the two differ.
  std::optional<std::vector<remat::Event>> mixture_within(Bytes limit) const;

 private:
  bool fits(const Start& start) const { return start.peak <= budget_; }
  /// Cheaper starts above the limit, sorted by the expected cost of the mixture.
  std::vector<const Start*> to_mix_with(const Start& smaller, Bytes limit) const;

  const remat::StageGraph* graph_;  // so that it may be assigned
  Bytes budget_;
  std::vector<Start> starts_;
};

}  // namespace lowtide::strategy::search
