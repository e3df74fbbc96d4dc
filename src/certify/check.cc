#include "certify/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "certify/chain.h"
#include "certify/cluster_cost.h"
#include "certify/digest.h"
#include "certify/flaw.h"
#include "certify/moment_cost.h"
#include "certify/price_sums.h"
#include "certify/relaxed.h"
#include "certify/sequence.h"
#include "certify/split.h"
#include "certify/stages.h"
#include "plan/places.h"

namespace lowtide::certify {
namespace {

/// Relative difference allowed between floating-point sums in different orders.
constexpr double kSameSum = 1e-9;

void check_identity(const Graph& graph, const Certificate& certificate) {
  if (certificate.num_ops == graph.num_ops() && certificate.num_tensors == graph.num_tensors() &&
      certificate.digest == digest(graph)) {
    return;
  }
  refuse(Flaw::wrong_graph,
         "the certificate is for the graph \"{}\" of {} ops and {} tensors; this one, \"{}\" of {} "
         "ops and {} tensors, differs from it in numbers or digest",
         certificate.graph, certificate.num_ops, certificate.num_tensors, graph.name(),
         graph.num_ops(), graph.num_tensors());
}

/// Per stage.
std::vector<double> prices_of(const Stages& stages, const Certificate::Proof& proof) {
  std::vector<std::optional<double>> given(stages.ops.size());
  double sum = 0;
  for (const auto& [op, price] : proof.prices) {
    const bool exists =
        op >= 0 && op < static_cast<OpId>(stages.of_op.size()) && stages.of_op[op] != kNone;
    if (!exists) refuse(Flaw::bad_index, "no stage ends with op {}, which has a price", op);
    std::optional<double>& here = given[stages.of_op[op]];
    if (here) refuse(Flaw::bad_price, "the stage of op {} has two prices", op);
    here = price;
    sum += price;
    if (!(price >= 0) || !std::isfinite(sum)) {
      refuse(Flaw::bad_price, "the price {} of the stage of op {} is negative or too large", price,
             op);
    }
  }
  std::vector<double> prices;
  for (const std::optional<double>& price : given) prices.push_back(price.value_or(0));
  return prices;
}

/// The only stage that has a price; kNone when several have one, or none.
int only_priced(const std::vector<double>& prices) {
  const auto has_price = [](double price) { return price > 0; };
  if (std::ranges::count_if(prices, has_price) != 1) return kNone;
  return static_cast<int>(std::ranges::find_if(prices, has_price) - prices.begin());
}

bool is_large(const Certificate::Cluster& cluster) {
  std::size_t values = 0;
  for (const Certificate::Rerun& rerun : cluster) values += rerun.values.size();
  return values > kMostClusterValues;
}

/// Checks that clusters are disjoint, and small if they must be, and that their reruns are valid.
class ClusterCheck {
 public:
  ClusterCheck(const Graph& graph, const Stages& stages, bool any_size)
      : graph_(graph),
        stages_(stages),
        any_size_(any_size),
        op_taken_(graph.ops().size()),
        value_taken_(graph.tensors().size()) {}

  void check(const Certificate::Cluster& cluster) {
    if (is_large(cluster) && !any_size_) {
      refuse(Flaw::cluster_too_large,
             "a cluster has more than {} values, and not exactly one op has a price",
             kMostClusterValues);
    }
    for (const Certificate::Rerun& rerun : cluster) check(rerun);
  }

 private:
  void check(const Certificate::Rerun& rerun) {
    if (rerun.ops.empty() || rerun.values.empty()) {
      refuse(Flaw::not_its_value, "a rerun has no ops or no values");
    }
    for (OpId op : rerun.ops) take_op(op);
    for (TensorId value : rerun.values) take_value(value, rerun.ops.back());
    Bytes made = 0;
    for (TensorId value : rerun.values) made += graph_.tensor(value).bytes;
    for (std::size_t k = rerun.ops.size() - 1; k-- > 0;) {
      made = check_glue(rerun.ops[k], rerun.ops[k + 1], made);
    }
  }

  void take_op(OpId id) {
    if (id < 0 || id >= graph_.num_ops()) {
      refuse(Flaw::bad_index, "there is no op {}; the graph has {}", id, graph_.num_ops());
    }
    const int stage = stages_.of_op[id];
    if (stage == kNone || stages_.last_rerun[stage] == kNone) {
      refuse(Flaw::runs_once, "{} may not run again, or is not needed", op_text(graph_, id));
    }
    if (op_taken_[id]) {
      refuse(Flaw::overlap, "{} is in two reruns", op_text(graph_, id));
    }
    op_taken_[id] = true;
  }

  void take_value(TensorId id, OpId maker) {
    if (id < 0 || id >= graph_.num_tensors()) {
      refuse(Flaw::bad_index, "there is no tensor {}; the graph has {}", id, graph_.num_tensors());
    }
    if (graph_.storage(id) != id || graph_.producer(id) != maker) {
      refuse(Flaw::not_its_value, "{} is not a storage made by {}", tensor_text(graph_, id),
             op_text(graph_, maker));
    }
    if (value_taken_[id]) {
      refuse(Flaw::overlap, "{} is decided twice", tensor_text(graph_, id));
    }
    value_taken_[id] = true;
  }

  /// `first` must make a value that only `next` reads and that is at least as large as the `made`
  /// bytes of `next`: then running `next` at once and holding its result needs no more memory.
  /// Returns the bytes of the value.
  Bytes check_glue(OpId first, OpId next, Bytes made) const {
    const int reader = stages_.of_op[next];
    Bytes largest = kNone;
    for (TensorId out : graph_.op(first).outputs) {
      if (graph_.storage(out) == out && stages_.readers[out] == std::vector{reader}) {
        largest = std::max(largest, graph_.tensor(out).bytes);
      }
    }
    if (largest >= made) return largest;
    refuse(Flaw::bad_glue,
           "{} is joined with {}, but makes no value that only the latter reads and that has at "
           "least the {} bytes of the latter's results",
           op_text(graph_, first), op_text(graph_, next), made);
  }

  const Graph& graph_;
  const Stages& stages_;
  const bool any_size_;
  std::vector<bool> op_taken_;
  std::vector<bool> value_taken_;
};

/// A sum rounded down, of terms of either sign with errors of a few units in the last place.
class SafeSum {
 public:
  void add(double term) {
    sum_ += term;
    size_ += std::abs(term);
    ++terms_;
  }
  double at_least() const {
    return sum_ - size_ * (terms_ + 4) * std::numeric_limits<double>::epsilon();
  }

 private:
  double sum_ = 0;
  double size_ = 0;
  double terms_ = 0;
};

/// The Lagrangian's value: the cost of all needed ops once, plus the least cost of each cluster at
/// the prices, minus the price of the bytes that each stage leaves in the budget.
double bound_at(const Graph& graph, const Stages& stages, Bytes budget,
                const Certificate::Proof& proof) {
  const std::vector<double> each = prices_of(stages, proof);
  const PriceSums prices(each);
  const int only = only_priced(each);
  SafeSum sum;
  const double rounding =
      static_cast<double>(graph.num_ops()) * std::numeric_limits<double>::epsilon();
  sum.add(stages.cost * (1 - rounding));
  ClusterCheck check(graph, stages, only != kNone);
  for (const Certificate::Cluster& cluster : proof.clusters) {
    check.check(cluster);
    sum.add(is_large(cluster) ? moment_cost(graph, stages, cluster, only, prices.at(only))
                              : ClusterCost(graph, stages, cluster).least(prices));
  }
  for (int t = 0; t <= stages.end(); ++t) {
    const Bytes room = budget - stages.needs[t];
    if (room < 0) return std::numeric_limits<double>::infinity();
    sum.add(-prices.at(t) * static_cast<double>(room));
  }
  return std::max(sum.at_least(), stages.cost * (1 - rounding));
}

/// The bound over all plans: the minimum over the cases.
double bound_by_cases(const Graph& graph, const Stages& stages, Bytes budget,
                      const Certificate::Split& split) {
  check_cases(graph, stages, split);
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [absent, proof] : split.cases) {
    const Stages of_case = stages_of_case(graph, stages, split.value, absent);
    least = std::min(least, bound_at(graph, of_case, budget, proof));
  }
  return least;
}

double bound_along_chain(const Graph& graph, const Stages& stages, const Certificate& certificate) {
  if (certificate.split) {
    refuse(Flaw::bad_split, "a certificate for any order cannot be split into cases");
  }
  const auto [along, on_chain] = stages_along(graph, stages, *certificate.chain);
  const double bound = bound_at(graph, along, certificate.budget_bytes, certificate.proof);
  for (const auto& [op, price] : certificate.proof.prices) {
    if (on_chain[along.of_op[op]]) continue;
    refuse(Flaw::bad_price, "{} has a price and is not on the chain", op_text(graph, op));
  }
  return bound;
}

double bound_of(const Graph& graph, const Stages& stages, const Certificate& certificate) {
  const Bytes budget = certificate.budget_bytes;
  if (budget < 0) refuse(Flaw::wrong_budget, "a budget of {} bytes is negative", budget);
  if (certificate.chain) return bound_along_chain(graph, stages, certificate);
  const double undivided = bound_at(graph, stages, budget, certificate.proof);
  if (!certificate.split) return undivided;
  return std::max(undivided, bound_by_cases(graph, stages, budget, *certificate.split));
}

/// The bound of the relaxed problem without the first run of each load, which its plans pay in
/// addition.
double bound_with_moves(const Graph& graph, const Certificate& certificate) {
  const Certificate::Moves& moves = *certificate.moves;
  if (!(moves.weight >= 0 && moves.weight <= 1)) {
    refuse(Flaw::bad_price, "the weight {} of computing is not between 0 and 1", moves.weight);
  }
  const Relaxed problem = relaxed(graph, moves);
  const Stages stages = stages_of(problem.graph);
  const double of_problem = bound_of(problem.graph, stages, certificate);
  if (std::isinf(of_problem)) return of_problem;  // no plan at all
  SafeSum sum;
  sum.add(of_problem);
  for (OpId load : problem.loads) {
    if (stages.of_op[load] != kNone) sum.add(-problem.graph.op(load).cost);
  }
  return std::max(sum.at_least(), 0.0);
}

double proved_by(const Graph& graph, const Stages& stages, const Certificate& certificate) {
  return certificate.moves ? bound_with_moves(graph, certificate)
                           : bound_of(graph, stages, certificate);
}

/// The lanes of the plan must be those of the proof.
void check_lanes(const Plan& plan, const Certificate& certificate) {
  if (!plan.slower) return;
  const PlaceLanes lanes = lanes_of_places(plan);
  const Lanes both = plan.slower->second ? together(lanes) : lanes.first;
  const bool same_lanes = certificate.moves && both == certificate.moves->lanes;
  if (same_lanes && !certificate.moves->residents && !plan.slower->residents.empty()) {
    refuse(
        Flaw::wrong_lanes,
        "the plan moves residents to slower memory, and the certificate is for plans that do not");
  }
  if (same_lanes) return;
  refuse(Flaw::wrong_lanes, "the plan moves values to slower memory{}",
         certificate.moves ? " along other lanes than those of the certificate"
                           : ", and the certificate is for plans that do not");
}

void check_claim(const Graph& graph, double claimed, double proved) {
  if (claimed <= proved + kSameSum * std::abs(proved)) return;
  refuse(Flaw::bound_too_high, "the certificate claims a bound of {} {}, but proves {}", claimed,
         graph.cost_unit(), proved);
}

SequenceTotals check_plan(const Graph& graph, const Stages& stages, const Plan& plan,
                          Bytes budget) {
  if (plan.budget_bytes != budget) {
    refuse(Flaw::wrong_budget, "the certificate is for a budget of {} bytes, the plan for {}",
           budget, plan.budget_bytes ? fmt::format("{} bytes", *plan.budget_bytes) : "none");
  }
  const SequenceTotals totals = follow(graph, stages, plan);
  if (totals.cost > plan.cost + kSameSum * std::abs(plan.cost)) {
    refuse(Flaw::plan_costs_more, "the plan says that it costs {}, but it costs {}", plan.cost,
           totals.cost);
  }
  if (totals.peak_bytes > std::min(plan.peak_bytes, budget)) {
    refuse(Flaw::plan_needs_more,
           "the plan says that its peak is {} bytes, within {}, but it is {}", plan.peak_bytes,
           budget, totals.peak_bytes);
  }
  return totals;
}

}  // namespace

std::string_view name(Flaw flaw) {
  switch (flaw) {
    case Flaw::wrong_graph: return "wrong_graph";
    case Flaw::bad_index: return "bad_index";
    case Flaw::bad_price: return "bad_price";
    case Flaw::bad_chain: return "bad_chain";
    case Flaw::runs_once: return "runs_once";
    case Flaw::not_its_value: return "not_its_value";
    case Flaw::overlap: return "overlap";
    case Flaw::cluster_too_large: return "cluster_too_large";
    case Flaw::bad_glue: return "bad_glue";
    case Flaw::bad_split: return "bad_split";
    case Flaw::bound_too_high: return "bound_too_high";
    case Flaw::wrong_budget: return "wrong_budget";
    case Flaw::wrong_lanes: return "wrong_lanes";
    case Flaw::bad_plan: return "bad_plan";
    case Flaw::plan_costs_more: return "plan_costs_more";
    case Flaw::plan_needs_more: return "plan_needs_more";
  }
  return "unknown";
}

bool is_proved(double claimed, double proved) {
  constexpr double kRounding = 1e-6;
  return claimed * (1 - kRounding) <= proved;
}

double Certified::gap() const { return cost <= lower_bound ? 0 : cost / lower_bound - 1; }

std::variant<double, Refused> proved_bound(const Graph& graph, const Certificate& certificate) {
  try {
    check_identity(graph, certificate);
    return proved_by(graph, stages_of(graph), certificate);
  } catch (const Refused& refused) {
    return refused;
  }
}

std::variant<Certified, Refused> certify(const Graph& graph, const Plan& plan,
                                         const Certificate& certificate) {
  try {
    check_identity(graph, certificate);
    const Stages stages = stages_of(graph);
    const double proved = proved_by(graph, stages, certificate);
    check_claim(graph, certificate.lower_bound, proved);
    check_lanes(plan, certificate);
    const SequenceTotals totals = check_plan(graph, stages, plan, certificate.budget_bytes);
    return Certified{totals.cost, totals.peak_bytes,  std::min(certificate.lower_bound, proved),
                     proved,      totals.keeps_order, certificate.chain.has_value()};
  } catch (const Refused& refused) {
    return refused;
  }
}

}  // namespace lowtide::certify
