#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "offload/first_prices.h"
#include "offload/loads.h"
#include "offload/ways.h"
#include "planner/attempts.h"
#include "planner/planner.h"

namespace lowtide::offload {

/// A plan is good enough when it costs no more than this times what each needed op costs once.
inline constexpr double kGoodEnough = 1.0001;

/// The search for the plan with slower memory that ends first. Holds the graph by reference.
///
/// A round plans reruns and loads together in a graph with loads, follows the lanes of that plan in
/// time, and adds the waits for a value to the price of its load, so that the next round moves
/// other values.
class JointSearch {
 public:
  /// `reserved`: of the budget of the user: see planner::plan_within(). Buffers are in it.
  JointSearch(const Graph& graph, Bytes budget, const Slower& slower, Ways ways, Bytes reserved);

  /// A plan that was found elsewhere.
  void offer(planner::Planned planned);

  /// Uses up the limit where that may find better plans.
  void run(bool reruns, const Control& control);
  /// The same with residents that move: the best of several shares of them, with moves alone.
  void run_with_residents(const Control& control);

  bool is_good_enough() const;
  /// The best plan, or why there is none.
  planner::Planned take();

 private:
  struct Choice;

  bool is_over() const {
    return is_good_enough() || control_.should_stop() || whole_.should_stop();
  }
  void in_rounds(const Control& control, const std::function<void()>& search);
  void try_choices(bool reruns);
  void choose_residents(std::span<const TensorId> all);
  std::vector<TensorId> first_bytes(std::span<const TensorId> all, double share) const;
  Bytes floor_without(std::span<const TensorId> residents) const;
  double improve_prices(std::vector<std::optional<double>> prices, double room, bool reruns);
  std::optional<Plan> plan_with_prices(std::span<const std::optional<double>> prices, Bytes room,
                                       bool reruns);
  std::int64_t work_of_packing() const;
  planner::Planned planned(const Graph& loads, Bytes room) const;
  planner::Planned search_once(const planner::Search& search, double seconds) const;
  LoadGraph graph_with_loads(std::span<const std::optional<double>> prices, bool reruns) const;
  Bytes budget_of(double room) const;
  void keep_if_better(Plan plan);
  planner::Planned nothing_planned() const;
  planner::Planned refusal(planner::Planned reruns) const;
  std::string limits_of_moves() const;
  std::string reached_by_reruns(const planner::Planned& planned) const;

  const Graph& graph_;
  const Bytes budget_;
  const Slower slower_;
  const Ways ways_;
  const Bytes reserved_;
  const Lanes typical_lanes_;
  const FirstPrices first_prices_;
  const double least_cost_;  ///< of any plan
  Control whole_;
  Control control_;                  ///< of a round of it
  std::vector<TensorId> residents_;  ///< that move
  std::vector<OpId> early_order_;    ///< of the graph's ops, where residents move
  std::optional<Graph> early_;       ///< in that order
  bool repeatable_ = true;
  planner::Planned best_;
};

}  // namespace lowtide::offload
