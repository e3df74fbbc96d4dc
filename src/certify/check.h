#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "certify/certificate.h"
#include "plan/plan.h"

namespace lowtide::certify {

/// The reason to refuse a certificate or its plan.
enum class Flaw : std::uint8_t {
  wrong_graph,        ///< made for another graph
  bad_index,          ///< an op, tensor or stage that does not exist
  bad_price,          ///< negative, not finite, repeated for a stage, or at an op not on the chain
  bad_chain,          ///< an op that need not run before the next one, or has no stage
  runs_once,          ///< a rerun of an op that may not run again, or that is not needed
  not_its_value,      ///< a value of a rerun that its op does not make
  overlap,            ///< an op or a value is in two reruns
  cluster_too_large,  ///< too many values in a cluster to check, where several ops have a price
  bad_glue,           ///< ops are joined, but holding the value between them may cost less
  bad_split,          ///< the cases of a value leave plans out or do not exist
  bound_too_high,     ///< the claim exceeds the proved bound
  wrong_budget,       ///< negative, or not the plan's budget
  wrong_lanes,        ///< the plan moves values, and the proof is not for its lanes
  bad_plan,           ///< an impossible action, or an output or effect missing at the end
  plan_costs_more,    ///< than the plan says
  plan_needs_more     ///< than the plan says, or than the budget
};

std::string_view name(Flaw flaw);

struct Refused {
  Flaw flaw;
  std::string message;  ///< with the names of ops and tensors
};

/// Most values of a cluster, where several ops have a price.
inline constexpr std::size_t kMostClusterValues = 14;

/// The bound that the prices and clusters of a certificate prove, whatever its claim: no plan of
/// the graph within Certificate::budget_bytes costs less. It holds for plans that move nothing to
/// slower memory, or, with Certificate::moves, that move values along its lanes; and, without a
/// chain, whose first runs keep the graph's order. Sums are rounded down. Infinite when there is no
/// plan. About O(graph + uses of decided values x 2^values of their cluster).
std::variant<double, Refused> proved_bound(const Graph& graph, const Certificate& certificate);

/// A plan and its bound, both checked.
struct Certified {
  double cost = 0;
  Bytes peak_bytes = 0;
  double lower_bound = 0;  ///< the claim, or the proved bound if rounding makes it smaller
  double proved = 0;       ///< by the same prices and clusters

  /// Whether first runs keep the graph's order. If not, a bound that is not for any order does not
  /// apply to this plan, and may even exceed its cost.
  bool keeps_order = true;
  bool any_order = false;  ///< whether the bound is for plans in any order

  double gap() const;  ///< cost / lower bound - 1; 0 when both are 0
};

/// Whether a bound that a plan claims is no higher than a proved one, up to rounding.
bool is_proved(double claimed, double proved);

/// Checks all claims of a certificate and a plan against the graph alone: shares no code with
/// strategies, planner, verifier or replay. Addresses are checked by plan/verify.h instead.
std::variant<Certified, Refused> certify(const Graph& graph, const Plan& plan,
                                         const Certificate& certificate);

}  // namespace lowtide::certify
