#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "certify/certificate.h"
#include "plan/plan.h"

namespace lowtide::certify {

/// Why a certificate, or a plan beside it, is refused.
enum class Flaw : std::uint8_t {
  wrong_graph,        ///< made for another graph
  bad_index,          ///< an op, tensor or stage that does not exist
  bad_price,          ///< negative, not finite, twice for one stage, or at an op beside the chain
  bad_chain,          ///< an op that need not run before the next on it, or that has no stage
  runs_once,          ///< decides about an op that may not run again, or that nothing needs
  not_its_value,      ///< decides about a value that the op beside it does not make
  overlap,            ///< an op or a value is decided twice
  cluster_too_large,  ///< more values in a cluster than are checked in reasonable time
  bad_glue,           ///< ops run again together though holding what lies between them may pay
  bad_split,          ///< cases of a value that leave plans out, or that do not exist
  bound_too_high,     ///< claims more than is proved
  wrong_budget,       ///< negative, or the plan is for another
  bad_plan,           ///< an action that cannot be done, or something missing at the end
  plan_costs_more,    ///< than the plan says
  plan_needs_more     ///< than the plan says, or than the budget
};

std::string_view name(Flaw flaw);

struct Refused {
  Flaw flaw;
  std::string message;  ///< with the names of ops and tensors
};

/// Most values that a cluster may decide about.
inline constexpr std::size_t kMostClusterValues = 14;

/// The bound that the prices and clusters of a certificate prove, whatever it claims: no plan of
/// the graph within Certificate::budget_bytes costs less, if it moves nothing to slower memory and,
/// unless the certificate has a chain, its first runs keep the graph's order. Sums are rounded
/// down. Infinite when there is no plan.
/// About O(graph + uses of decided values x 2^values of their cluster).
std::variant<double, Refused> proved_bound(const Graph& graph, const Certificate& certificate);

/// A plan and the bound beside it, both checked.
struct Certified {
  double cost = 0;
  Bytes peak_bytes = 0;
  double lower_bound = 0;  ///< as claimed, or as proved where rounding makes that less
  double proved = 0;       ///< by the same prices and clusters

  /// Whether first runs keep the graph's order: else a bound that is not for any order is for other
  /// plans, and may even be above this one's cost.
  bool keeps_order = true;
  bool any_order = false;  ///< whether the bound is for plans in any order

  double gap() const;      ///< cost / lower bound - 1; 0 when both are 0
};

/// Checks everything that a certificate and a plan claim, by nothing but the graph: shares no code
/// with strategies, planner, verifier or replay. Addresses are left to plan/verify.h.
std::variant<Certified, Refused> certify(const Graph& graph, const Plan& plan,
                                         const Certificate& certificate);

}  // namespace lowtide::certify
