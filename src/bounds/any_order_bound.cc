#include "bounds/any_order_bound.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "bounds/any_order.h"
#include "bounds/certificate.h"
#include "bounds/price_bound.h"

namespace lowtide::bounds {
namespace {

/// The largest number of times that a chain is thinned out.
constexpr int kThinnings = 3;
/// Share of the work for one chain; the best chain gets more at the end.
constexpr double kTrialShare = 0.02;
constexpr double kLastShare = 0.5;

class Trials {
 public:
  Trials(const Graph& graph, const remat::StageGraph& stages, Bytes budget, const Control& control)
      : graph_(graph),
        stages_(stages),
        precedence_(graph, stages, ordering::Orders::valid),
        budget_(budget),
        control_(control) {
    try_chain({}, 0);
  }

  /// Tries a chain, then its ops that got a price, and so on.
  void thin_out(OpChain chain, double work) {
    for (int i = 0; i < kThinnings && !control_.should_stop(); ++i) {
      OpChain priced = try_chain(chain, work);
      if (priced == chain) break;
      chain = std::move(priced);
    }
  }

  void try_best(double work) {
    if (!control_.should_stop()) try_chain(best_chain_, work);
  }

  OpChain heaviest(const std::vector<double>& weights) const {
    return heaviest_chain(precedence_, weights);
  }
  std::shared_ptr<const certify::Certificate> best() const { return best_; }

 private:
  /// Raises the bound of the chain, if there is time, and returns its ops that get a price.
  OpChain try_chain(const OpChain& chain, double work) {
    const ChainedStages along = along_chain(stages_, precedence_, chain);
    PriceBound bound(along.graph, budget_, along.on_chain);
    if (work > 0 && !control_.should_stop()) raise_in_rounds(bound, work, Control(), control_);
    certify::Certificate certificate = certificate_of(graph_, along.graph, bound, budget_);
    certificate.chain.emplace();
    for (int i : chain) certificate.chain->push_back(stages_.stage(i).op);
    std::vector<certify::Certificate::Price>& prices = certificate.proof.prices;
    std::ranges::sort(prices, {}, &certify::Certificate::Price::op);
    OpChain priced;
    for (int i : chain) {
      const OpId op = stages_.stage(i).op;
      if (std::ranges::binary_search(prices, op, {}, &certify::Certificate::Price::op)) {
        priced.push_back(i);
      }
    }
    if (!best_ || certificate.lower_bound > best_->lower_bound) {
      best_ = std::make_shared<const certify::Certificate>(std::move(certificate));
      best_chain_ = chain;
    }
    return priced;
  }

  const Graph& graph_;
  const remat::StageGraph& stages_;
  const ordering::Precedence precedence_;
  const Bytes budget_;
  const Control& control_;
  std::shared_ptr<const certify::Certificate> best_;
  OpChain best_chain_;
};

}  // namespace

std::shared_ptr<const certify::Certificate> any_order_bound(const Graph& graph,
                                                            const remat::StageGraph& stages,
                                                            const certify::Certificate& fixed_order,
                                                            double work, const Control& control) {
  Trials trials(graph, stages, fixed_order.budget_bytes, control);
  const std::vector<double> equal(stages.num_stages(), 1);
  const std::vector<double> prices = stage_prices(stages, op_prices(fixed_order));
  for (const std::vector<double>& weights : {prices, equal}) {
    trials.thin_out(trials.heaviest(weights), kTrialShare * work);
  }
  trials.try_best(kLastShare * work);
  return trials.best();
}

}  // namespace lowtide::bounds
