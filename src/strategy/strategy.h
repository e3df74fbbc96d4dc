#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/control.h"
#include "graph/graph.h"
#include "strategy/options.h"

namespace lowtide::certify {
struct Certificate;
}  // namespace lowtide::certify
namespace lowtide::ordering {
class KnownOrder;
}  // namespace lowtide::ordering

namespace lowtide::strategy {

/// The input of a strategy.
struct PlanRequest {
  const Graph& graph;
  Bytes budget_bytes;       ///< for the replayed peak with writes in place, residents included
  StrategyOptions options;  ///< complete: defaults filled in
  Control& control;
  /// The answer to a request for a slightly larger budget, if any: a strategy that can may continue
  /// from it, which needs less time than a new search. May be empty.
  std::span<const OpId> start = {};
  /// Results of earlier requests about the same graph (ordering/known_order.h), to which this one
  /// may add. May be null.
  ordering::KnownOrder* known_order = nullptr;
  /// Prices of a byte while each op first ran, and then for the end, from an earlier answer. May be
  /// empty.
  std::span<const double> prices = {};
};

enum class Outcome : std::uint8_t {
  optimal,     ///< within the budget, and no plan under the model costs less
  feasible,    ///< within the budget
  infeasible,  ///< no plan found within the budget; `smallest_peak` says what budget suffices
  stopped      ///< the user or the time limit ended it before it found a plan within the budget
};
std::string_view name(Outcome outcome);

/// The answer of a strategy: an order of executions for plan/lower.h, and the proved bounds.
struct Decision {
  Outcome outcome = Outcome::infeasible;
  std::vector<OpId> executions;  ///< when optimal or feasible
  /// Others within the budget that cost a little more, cheapest first. One whose addresses fit may
  /// be better than a cheaper one whose addresses do not. May be empty.
  std::vector<std::vector<OpId>> alternatives = {};
  std::optional<double> lower_bound;             ///< on the cost of any plan within the budget
  std::string_view bound_model = "fixed-order";  ///< plans that the bound is for: see Plan::model
  /// A proof of the bound that others can check (certify/certificate.h). May be empty.
  std::shared_ptr<const certify::Certificate> certificate = {};
  /// When infeasible: the smallest peak that this strategy reaches; a request for it succeeds. And
  /// a plan of that peak, so that it also does when there is less time than it took to find it.
  std::optional<Bytes> smallest_peak;
  std::vector<OpId> smallest_executions = {};
  std::string message;  ///< why, when infeasible
};

/// Also of a graph that needs no op, whose plan runs none.
inline bool has_plan(const Decision& decision) {
  return decision.outcome == Outcome::optimal || decision.outcome == Outcome::feasible;
}

/// One planning strategy. A new one is one file under src/strategy/ and one line in registry.cc.
struct Strategy {
  std::string_view name;
  std::string_view summary;    ///< one line of help
  std::string_view guarantee;  ///< the guarantee of its plans
  std::string_view paper;
  std::vector<StrategyOption> options;
  Decision (*decide)(const PlanRequest& request);
  /// Whether unneeded reruns may be removed from its plans when the arena has space
  /// (planner/spare_room.h). False where plans must show the decisions of a method.
  bool may_lose_reruns = false;
};

std::span<const Strategy> strategies();
/// Throws InputError with the nearest names.
const Strategy& find_strategy(std::string_view name);
/// The strategy that commands use when none is named.
const Strategy& default_strategy();
/// As find_strategy(), but the default strategy for an empty name.
const Strategy& find_strategy_or_default(std::string_view name);
/// Null when the strategy has no option of that name.
const StrategyOption* find_option(const Strategy& strategy, std::string_view name);

/// Every option of the strategy with its default.
StrategyOptions default_options(const Strategy& strategy);

/// The given options and the defaults of the others. Throws InputError for an option that the
/// strategy does not have, and for a value that it cannot have.
StrategyOptions complete_options(const Strategy& strategy, const GivenOptions& given);

}  // namespace lowtide::strategy
