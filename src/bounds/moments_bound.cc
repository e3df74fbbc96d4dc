#include "bounds/moments_bound.h"

#ifdef LOWTIDE_HIGHS

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>

#include "bounds/any_order.h"
#include "bounds/certificate.h"
#include "bounds/cost.h"
#include "bounds/moments_program.h"
#include "bounds/price_bound.h"
#include "ordering/precedence.h"
#include "remat/event_plan.h"
#include "solver/highs.h"

namespace lowtide::bounds {
namespace {

constexpr std::size_t kFirstMoments = 3;
constexpr std::size_t kMoreMoments = 2;

/// Two moments at a smaller share of the stages say about the same.
constexpr double kApart = 1.0 / 40;

/// A round should close this share of the gap.
constexpr double kWorthARound = 0.05;

/// Larger programs need more time than a bound should.
constexpr int kMostRows = 30'000;

/// The bytes beyond the room of each stage while its op first runs.
std::vector<double> excess(const remat::StageGraph& graph, std::span<const double> room,
                           std::span<const remat::Event> events) {
  remat::EventPlan plan(graph, 0);
  for (const remat::Event event : events) {
    if (!plan.contains(event)) plan.add(event);
  }
  std::vector<double> change(graph.num_stages() + 1);
  std::vector<double> over(graph.num_stages());
  for (int v = 0; v < graph.num_values(); ++v) {
    const remat::StageValue& value = graph.value(v);
    if (graph.stage(value.producer).latest <= value.producer) continue;  // the room is without it
    const auto bytes = static_cast<double>(value.bytes);
    const std::vector<int>& runs = plan.runs(value.producer);
    for (int k = 0; k < static_cast<int>(runs.size()); ++k) {
      const int last = plan.last_stage(v, k);
      change[runs[k]] += bytes;
      change[last] -= bytes;
      const auto is_own = [&](int t) { return runs[k] <= t && t < last; };
      if (is_own(value.producer)) over[value.producer] -= bytes;
      for (int reader : value.readers) over[reader] -= is_own(reader) ? bytes : 0;
    }
  }
  double held = 0;
  for (int t = 0; t < graph.num_stages(); ++t) {
    held += change[t];
    over[t] += held - room[t];
  }
  return over;
}

/// The stages for which the bound's plans have a single order: the graph's, or along a chain.
class OrderedStages {
 public:
  /// `moments`: ops.
  OrderedStages(const remat::StageGraph& stages, const ordering::Precedence* precedence,
                std::span<const int> moments, Bytes budget)
      : given_(stages) {
    std::vector<bool> counts(stages.num_stages());
    for (int i : moments) counts[i] = true;
    if (precedence != nullptr) {
      along_ = along_chain(stages, *precedence, OpChain(moments.begin(), moments.end()));
      counts = along_->on_chain;
    }
    const PriceBound bound(graph(), budget, counts);
    room_ = bound.room();
    is_infeasible_ = bound.infeasible();
    for (int t = 0; t < graph().end(); ++t) {
      if (counts[t]) moments_.push_back(t);
    }
  }

  const remat::StageGraph& graph() const { return along_ ? along_->graph : given_; }
  const std::vector<double>& room() const { return room_; }
  const std::vector<int>& moments() const { return moments_; }
  bool is_infeasible() const { return is_infeasible_; }

 private:
  const remat::StageGraph& given_;
  std::optional<ChainedStages> along_;
  std::vector<double> room_;
  std::vector<int> moments_;
  bool is_infeasible_ = false;
};

class MomentRounds {
 public:
  MomentRounds(const Graph& graph, const certify::Certificate& certificate, double cost,
               const Control& control)
      : stages_(graph),
        stage_of_(graph.num_ops(), kNone),
        budget_(certificate.budget_bytes),
        cost_(cost),
        control_(control) {
    for (int t = 0; t < stages_.end(); ++t) stage_of_[stages_.stage(t).op] = t;
    if (certificate.chain) precedence_.emplace(graph, stages_, ordering::Orders::valid);
    take_dearest(stage_prices(stages_, op_prices(certificate)));
  }

  double run() {
    while (!moments_.empty() && !control_.should_stop()) {
      const double before = best_;
      const bool may_gain = solve_once() && best_ < cost_ * (1 - kRounding);
      const bool gained = best_ - before > kWorthARound * (cost_ - before);
      if (!may_gain || !gained) break;
    }
    return best_;
  }

 private:
  void take_dearest(const std::vector<double>& prices) {
    std::vector<int> stages;
    for (int t = 0; t < stages_.end(); ++t) {
      if (prices[t] > 0) stages.push_back(t);
    }
    std::ranges::stable_sort(stages, [&](int a, int b) { return prices[a] > prices[b]; });
    stages.resize(std::min(stages.size(), kFirstMoments));
    std::ranges::sort(stages);
    moments_ = std::move(stages);
  }

  /// Solves the program of the moments, and adds some. Returns whether another round can gain.
  bool solve_once() {
    const OrderedStages along(stages_, precedence_ ? &*precedence_ : nullptr, moments_, budget_);
    if (along.is_infeasible()) return false;
    const MomentsProgram program(along.graph(), along.room(), along.moments());
    const int rows = program.program().num_rows();
    const bool has_time =
        control_.limit_seconds() <= 0 || control_.left_seconds() > solver::relaxation_seconds(rows);
    if (rows > kMostRows || !has_time) return false;
    const solver::Solved solved = solver::solve_with_highs(program.program(), {}, control_);
    take(program.cost_of(solved.bound) * (1 - kRounding));
    if (solved.status != solver::Solved::Status::optimal || solved.values.empty()) return false;
    return add_moments(along, program.events_of(solved.values));
  }

  void take(double value) {
    if (value <= best_) return;
    best_ = value;
    control_.report(fmt::format("bound {:.3f}% with {} moments",
                                100 * (value / stages_.required_cost() - 1), moments_.size()));
  }

  /// Where the plan exceeds the budget most. False: it does so nowhere, or near the moments only.
  bool add_moments(const OrderedStages& along, const std::vector<remat::Event>& events) {
    const std::vector<double> over = excess(along.graph(), along.room(), events);
    std::vector<int> candidates;
    for (int t = 0; t < along.graph().end(); ++t) {
      if (over[t] > 0) candidates.push_back(t);
    }
    std::ranges::stable_sort(candidates, [&](int a, int b) { return over[a] > over[b]; });
    std::size_t added = 0;
    for (int t : candidates) {
      const int stage = stage_of_[along.graph().stage(t).op];
      if (!is_apart(stage)) continue;
      moments_.insert(std::ranges::upper_bound(moments_, stage), stage);
      if (++added == kMoreMoments) break;
    }
    return added > 0;
  }

  /// Whether the stage is a moment of its own, which comes at a known place among the others.
  bool is_apart(int stage) const {
    const double apart = kApart * stages_.num_stages();
    if (std::ranges::any_of(moments_, [&](int m) { return std::abs(m - stage) < apart; })) {
      return false;
    }
    if (!precedence_) return true;
    const std::vector<bool> before = precedence_->all_before(stage);
    const std::vector<bool> after = precedence_->all_after(stage);
    return std::ranges::all_of(moments_, [&](int m) { return m < stage ? before[m] : after[m]; });
  }

  const remat::StageGraph stages_;
  std::vector<int> stage_of_;  // per op; kNone for views and what nothing needs
  const Bytes budget_;
  const double cost_;
  const Control& control_;
  std::optional<ordering::Precedence> precedence_;  // where the bound is for all orders
  std::vector<int> moments_;                        // stages, ascending
  double best_ = 0;
};

}  // namespace

double moments_bound(const Graph& graph, const certify::Certificate& certificate, double cost,
                     const Control& control) {
  if (graph.num_ops() > kMostRows) return 0;
  return MomentRounds(graph, certificate, cost, control).run();
}

}  // namespace lowtide::bounds

#else

namespace lowtide::bounds {

double moments_bound(const Graph&, const certify::Certificate&, double, const Control&) {
  return 0;
}

}  // namespace lowtide::bounds

#endif
