#pragma once

#include <fmt/format.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/fault.h"
#include "offload/ways.h"
#include "planner/planner.h"

namespace lowtide::testing {

/// What was asked and checked, for a report.
struct PlanTally {
  int graphs = 0;
  int answers = 0;  ///< of all kinds
  int plans = 0;
  int refusals = 0;  ///< that named a budget, within which a plan was then found
  int bounds = 0;
  int packings = 0;
  int checks = 0;  ///< conditions that held

  PlanTally& operator+=(const PlanTally& other);
};
std::string format_tally(const PlanTally& tally);

/// The answers of all strategies about one graph. Throws Fault for what no answer may be: alone, as
/// take() sees it, and beside all others, as compare() does.
class PlanAnswers {
 public:
  explicit PlanAnswers(const Graph& graph);

  /// The answer to a request for a plan within the budget. `slower`: that plans could move to; null
  /// for none.
  void take(const planner::Planned& planned, Bytes budget, const std::string& what,
            const offload::Slower* slower = nullptr);

  /// No bound is above the cost of a plan that it is for, and no plan needs less than the floor. Of
  /// a small graph, all agree with the cheapest of all sequences.
  void compare();
  /// The same for plans of the graph with its ops in another order.
  void compare_bounds_with(const PlanAnswers& of_other_order);

  /// A bound that was proved elsewhere, and the model of its plans (Plan::model).
  void take_bound(std::string what, double least, Bytes budget, std::string model);

  /// Counts a condition. Throws Fault if it does not hold.
  template <typename... Args>
  void check(bool holds, fmt::format_string<Args...> what, Args&&... args) {
    ++tally_.checks;
    if (!holds) throw Fault(fmt::format(what, std::forward<Args>(args)...));
  }

  const std::deque<Plan>& plans() const { return plans_; }
  PlanTally& tally() { return tally_; }

 private:
  struct Bound {
    std::string what;
    double least;
    Bytes budget;
    std::string model;                ///< Plan::model
    bool with_moves, with_residents;  ///< whether it is for plans that move values and residents
  };
  struct Found {
    std::string what;
    const Plan* plan;
    bool keeps_order, keeps_stages;  ///< whether it is one of the models of these names
    bool moves, moves_residents;
  };

  void check_plan(const Plan& plan, Bytes budget, const std::string& what);
  void check_addresses(const Plan& plan, const std::string& what);
  void check_places(const Plan& plan, const offload::Slower* slower, const std::string& what);
  void check_files(const Plan& plan, const std::string& what);
  void take_bounds(const planner::Planned& planned, const std::string& what);
  void check_certificate(const planner::Planned& planned, const std::string& what);
  void compare(const Bound& bound, const Found& found);
  void compare_with_sequences();

  const Graph& graph_;
  const Bytes floor_;
  std::deque<Plan> plans_;
  std::vector<Found> found_;
  std::vector<Bound> bounds_;
  PlanTally tally_;
};

}  // namespace lowtide::testing
