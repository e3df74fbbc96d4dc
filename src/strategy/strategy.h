#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/control.h"
#include "graph/graph.h"

namespace lowtide::certify {
struct Certificate;
}  // namespace lowtide::certify
namespace lowtide::ordering {
class KnownOrder;
}  // namespace lowtide::ordering

namespace lowtide::strategy {

/// An option of a strategy, for --help, validation and documentation.
struct StrategyOption {
  std::string_view name;     ///< "segments"
  std::string_view help;
  double default_value;
  double low, high;          ///< inclusive
};

using StrategyOptions = std::map<std::string, double, std::less<>>;

/// What a strategy is asked.
struct PlanRequest {
  const Graph& graph;
  Bytes budget_bytes;        ///< for the replayed peak with writes in place, residents included
  StrategyOptions options;   ///< complete: defaults filled in
  Control& control;
  /// The answer to a request for a little more, if there was one: a strategy that can may go on
  /// from there, which takes less time than to begin again. May be empty.
  std::span<const OpId> start = {};
  /// What earlier requests about the same graph found out (ordering/known_order.h), and this
  /// one may add to. May be null.
  ordering::KnownOrder* known_order = nullptr;
  /// What a byte was worth while each op first ran, in an earlier answer; then until the end. May
  /// be empty.
  std::span<const double> prices = {};
};

enum class Outcome : std::uint8_t {
  optimal,     ///< within the budget, and no plan under the model costs less
  feasible,    ///< within the budget
  infeasible,  ///< nothing found within the budget; `smallest_peak` says what would do
  stopped      ///< the user or the time limit ended it before anything within the budget was found
};
std::string_view name(Outcome outcome);

/// What a strategy answers: an order of executions for plan/lower.h, and what it proved.
struct Decision {
  Outcome outcome = Outcome::infeasible;
  std::vector<OpId> executions;       ///< when optimal or feasible
  /// Others within the budget that cost a little more, cheapest first: one whose addresses fit may
  /// be better than a cheaper one whose addresses do not. May be empty.
  std::vector<std::vector<OpId>> alternatives = {};
  std::optional<double> lower_bound;  ///< on the cost of any plan within the budget
  std::string_view bound_model = "fixed-order";  ///< which plans are meant: see Plan::model
  /// Of the bound: a proof that others can check (certify/certificate.h). May be empty.
  std::shared_ptr<const certify::Certificate> certificate = {};
  /// When infeasible: of the leanest plan this strategy can make. Asked for it, it makes one.
  std::optional<Bytes> smallest_peak;
  std::string message;                ///< why, when infeasible
};

/// One planning strategy. A new one is one file under src/strategy/ and one line in registry.cc.
struct Strategy {
  std::string_view name;
  std::string_view summary;    ///< one line of help
  std::string_view guarantee;  ///< what its plans promise
  std::string_view paper;
  std::vector<StrategyOption> options;
  Decision (*decide)(const PlanRequest& request);
  /// Whether its plans may lose reruns for which an arena has room (planner/spare_room.h). Not
  /// where they are to show what a method decides.
  bool may_lose_reruns = false;
};

std::span<const Strategy> strategies();
/// Throws InputError with the nearest names.
const Strategy& find_strategy(std::string_view name);
/// The one that commands use when none is named.
const Strategy& default_strategy();
/// The default one for an empty name. Throws as find_strategy() does.
const Strategy& find_strategy_or_default(std::string_view name);
/// Null when the strategy has no option of that name.
const StrategyOption* find_option(const Strategy& strategy, std::string_view name);

/// Every option of the strategy with its default.
StrategyOptions default_options(const Strategy& strategy);

/// The given options and the defaults of the others. Throws InputError for an option that the
/// strategy does not have, and for a value out of its range.
StrategyOptions complete_options(const Strategy& strategy, const StrategyOptions& given);

}  // namespace lowtide::strategy
