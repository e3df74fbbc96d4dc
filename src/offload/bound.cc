#include "offload/bound.h"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "base/time_share.h"
#include "bounds/any_order_bound.h"
#include "bounds/certificate.h"
#include "bounds/price_bound.h"
#include "certify/check.h"
#include "certify/digest.h"
#include "certify/relaxed.h"
#include "ordering/lower_memory_order.h"
#include "remat/stage_graph.h"

namespace lowtide::offload {
namespace {

using certify::Certificate;
using Shared = std::shared_ptr<const Certificate>;

/// For each size of cluster, at one weight.
constexpr double kWorkPerWeight = 6e7;
/// Share of the time that is left, for one weight.
constexpr double kShareOfWeight = 0.2;
constexpr std::array kFirstWeights{0.5, 0.75, 0.9};
constexpr int kHalvings = 3;
/// A plan that costs so little more than the bound needs no better one.
constexpr double kCloseToBound = 1.0001;

class Weights {
 public:
  Weights(const Graph& graph, Bytes budget, const Lanes& lanes, const Plan& plan, Control& control)
      : graph_(graph),
        budget_(budget),
        lanes_(lanes),
        plan_(plan),
        control_(control),
        keeps_order_(!ordering::order_of(graph, remat::StageGraph(graph), executions_of(plan))) {}

  Shared find() {
    best_ = at(1);  // copies are free: every needed op once
    best_weight_ = 1;
    for (double weight : kFirstWeights) look_at(weight);
    // The bound is concave in the weight, as each plan's weighted sum is linear in it.
    double step = 0.125;
    for (int i = 0; i < kHalvings; ++i, step /= 2) {
      const double middle = best_weight_;
      for (double weight : {middle - step, middle + step}) look_at(weight);
    }
    return best_;
  }

 private:
  bool is_over() const {
    return plan_.cost <= kCloseToBound * best_->lower_bound || control_.should_stop();
  }

  void look_at(double weight) {
    if (weight <= 0 || weight >= 1 || is_over()) return;
    Shared found = at(weight);
    if (found->lower_bound <= best_->lower_bound) return;
    best_ = std::move(found);
    best_weight_ = weight;
    control_.report(
        fmt::format("no plan with slower memory costs less than {:.6g}", best_->lower_bound));
  }

  Shared at(double weight) {
    const bool residents = plan_.slower && !plan_.slower->residents.empty();
    const Certificate::Moves moves{lanes_, weight, residents};
    const certify::Relaxed problem = certify::relaxed(graph_, moves);
    const remat::StageGraph stages(problem.graph);
    bounds::PriceBound bound(stages, budget_);
    Control part = share_of_time(control_, kShareOfWeight);
    if (!prices_.empty()) bound.start_from(prices_);
    if (weight < 1) bounds::raise_in_rounds(bound, kWorkPerWeight, Control(), part);
    Shared proof = bounds::shared_certificate(problem.graph, stages, bound, budget_);
    prices_ = bound.prices().each();
    if (!keeps_order_) {
      proof = bounds::any_order_bound(problem.graph, stages, *proof,
                                      weight < 1 ? kWorkPerWeight : 0, part);
    }
    return for_moves(*proof, moves);
  }

  /// The relaxed problem's certificate in terms of the graph.
  Shared for_moves(const Certificate& of_relaxed, const Certificate::Moves& moves) const {
    auto proof = std::make_shared<Certificate>(of_relaxed);
    proof->graph = graph_.name();
    proof->num_ops = graph_.num_ops();
    proof->num_tensors = graph_.num_tensors();
    proof->digest = certify::digest(graph_);
    proof->moves = moves;
    const auto proved = certify::proved_bound(graph_, *proof);
    proof->lower_bound = std::get<double>(proved);
    return proof;
  }

  const Graph& graph_;
  const Bytes budget_;
  const Lanes& lanes_;
  const Plan& plan_;
  Control& control_;
  const bool keeps_order_;
  Shared best_;
  double best_weight_ = 1;
  std::vector<double> prices_;  // by stage, of the last weight
};

}  // namespace

Shared lower_bound(const Graph& graph, Bytes budget, const Lanes& lanes, const Plan& plan,
                   Control& control) {
  return Weights(graph, budget, lanes, plan, control).find();
}

}  // namespace lowtide::offload
