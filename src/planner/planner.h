#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "layout/layout.h"
#include "plan/plan.h"
#include "strategy/strategy.h"

namespace lowtide::planner {

/// A plan with addresses that fit, and how good it is.
struct Planned {
  strategy::Outcome outcome = strategy::Outcome::infeasible;
  std::optional<Plan> plan;  ///< verified; its arena is within the budget
  Bytes budget_bytes = 0;
  /// Beside the plan, what the budget of the user also holds; in the texts, and in no other number.
  Bytes reserved_bytes = 0;
  double keep_all_cost = 0;
  Bytes keep_all_peak_bytes = 0;
  /// Proof of a lower bound for this budget, when the strategy gave one.
  std::shared_ptr<const certify::Certificate> certificate;
  std::optional<Bytes> smallest_budget;  ///< that this strategy reached, when infeasible
  std::optional<Plan> smallest_plan;     ///< verified; its arena is the smallest budget
  double seconds = 0;
  /// Whether counted work alone ended the searches (base/control.h). Then the same call finds the
  /// same plan again. Else the clock ended one, as on a slow or busy machine.
  bool repeatable = true;
  std::string message;
  std::optional<Bytes> floor_bytes;  ///< that any plan needs; none: bounds::budget_floor()
  std::string why_not_less;          ///< when infeasible: the bytes that any budget must hold

  double overhead() const;  ///< cost / keep-all cost - 1
  /// Lower bound / keep-all cost - 1: no plan within the budget has less.
  std::optional<double> least_overhead() const;
  std::optional<double> gap() const;  ///< cost / lower bound - 1
};

/// Runs a strategy within a budget of bytes: decide, lower, write in place, lay out, verify. When
/// the peak fits and the arena does not, the strategy is asked again, with the missing bytes taken
/// off its budget and its last plan as a start. Reruns that the arena has space to avoid are then
/// removed (Strategy::may_lose_reruns). Where no plan is found, the plan of the fewest bytes is
/// looked for, for a third of the limit more, and with more than 5 s one of fewer bytes from there,
/// for another third: a budget that a refusal names is met with the same limit. `options` may be
/// partial; an unknown or out-of-range one throws InputError. A plan that the verifier refuses is a
/// bug and throws std::logic_error. `reserved_bytes`: of the budget that the user gave, what the
/// plan cannot have; the texts for the user count it in.
Planned plan_within(const Graph& graph, const strategy::Strategy& strategy, Bytes budget_bytes,
                    const strategy::GivenOptions& options, Control& control,
                    Bytes reserved_bytes = 0);

/// The same for an order of executions that `strategy` decided elsewhere: laid out and verified, or
/// infeasible when its arena exceeds the budget.
Planned plan_of(const Graph& graph, std::span<const OpId> executions, std::string_view strategy,
                Bytes budget_bytes);

}  // namespace lowtide::planner
