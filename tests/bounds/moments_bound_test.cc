// Programs of a few moments against all plans of small graphs, and against the bound of one moment.

#include "bounds/moments_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "bounds/any_order.h"
#include "bounds/certificate.h"
#include "bounds/moment_bound.h"
#include "bounds/moments_program.h"
#include "solver/highs.h"
#include "support/ask.h"
#include "support/cheapest_sequence.h"
#include "support/random_graph.h"
#include "support/tiny_graphs.h"

namespace lowtide::bounds {
namespace {

using testing::kNever;

constexpr double kTolerance = 1e-6;  // of HiGHS

std::vector<int> some_stages(const remat::StageGraph& graph, std::mt19937_64& random) {
  std::vector<int> stages;
  while (stages.empty()) {
    for (int t = 0; t < graph.end(); ++t) {
      if (random() % 3 == 0) stages.push_back(t);
    }
  }
  return stages;
}

std::vector<int> all_stages(const remat::StageGraph& graph) {
  std::vector<int> stages;
  for (int t = 0; t < graph.end(); ++t) stages.push_back(t);
  return stages;
}

PriceBound raised_bound(const remat::StageGraph& graph, Bytes budget) {
  PriceBound bound(graph, budget);
  bound.raise(2, Gluing::strict, 1e5, Control());
  return bound;
}

/// The optimum with memory counted at these moments; kNever where it has no solution.
double optimum_at(const remat::StageGraph& graph, const PriceBound& prices,
                  const std::vector<int>& moments) {
  const MomentsProgram program(graph, prices.room(), moments);
  if (program.program().num_columns() == 0) return graph.required_cost();
  const solver::Solved solved = solver::solve_with_highs(program.program(), {}, Control());
  if (solved.status == solver::Solved::Status::infeasible) return kNever;
  EXPECT_EQ(solved.status, solver::Solved::Status::optimal);
  const double cost = program.cost_of(solved.bound);
  // Its plan has no reruns but those of the solution.
  EXPECT_LE(remat::cost_of(graph, program.events_of(solved.values)), cost * (1 + kTolerance));
  return cost;
}

TEST(MomentsProgram, IsBelowEveryPlanAndRisesWithMoreMoments) {
  std::mt19937_64 random(1);
  testing::TinyGraphs graphs(7000);
  int above_keep_all = 0;
  int tight = 0;
  for (int i = 0; i < 150; ++i) {
    const testing::Tiny tiny = graphs.next();
    SCOPED_TRACE(tiny.graph.name());
    std::set<Bytes> peaks;
    for (const testing::Candidate& plan : tiny.plans) peaks.insert(plan.in_place_peak);
    for (const Bytes budget : peaks) {
      const PriceBound prices(tiny.stages, budget);
      if (prices.infeasible()) continue;
      const double least =
          testing::least_cost(tiny.plans, &testing::Candidate::in_place_peak, budget);
      const double some = optimum_at(tiny.stages, prices, some_stages(tiny.stages, random));
      const double all = optimum_at(tiny.stages, prices, all_stages(tiny.stages));
      ASSERT_LE(some, all * (1 + kTolerance));
      ASSERT_LE(all, least * (1 + kTolerance)) << "within " << budget;
      above_keep_all += some > tiny.plans.front().cost * (1 + kTolerance);
      tight += all > tiny.plans.front().cost * (1 + kTolerance) && all > least * (1 - kTolerance);
    }
  }
  EXPECT_GT(above_keep_all, 10);
  EXPECT_GT(tight, 20);
}

/// Along a random chain, against all sequences.
TEST(MomentsProgram, AlongAChainIsBelowEverySequence) {
  std::mt19937_64 random(2);
  int above_keep_all = 0;
  int compared = 0;
  for (std::uint64_t seed = 0; compared < 300; ++seed) {
    const Graph graph = testing::random_graph(seed, {.ops = 7, .views = false, .effects = false});
    const auto is_value = [](const Tensor& t) { return t.kind == Kind::value; };
    if (std::ranges::count_if(graph.tensors(), is_value) > 10) continue;
    const remat::StageGraph stages(graph);
    const testing::CheapestSequence cheapest(graph);
    const ordering::Precedence precedence(graph, stages, ordering::Orders::valid);
    for (double share : {0.9, 0.75, 0.6}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", share " << share);
      const auto budget = static_cast<Bytes>(share * remat::keep_all_peak(stages));
      std::vector<double> weights(stages.num_stages());
      for (double& weight : weights) weight = static_cast<double>(random() % 4);
      const OpChain chain = heaviest_chain(precedence, weights);
      const ChainedStages along = along_chain(stages, precedence, chain);
      const PriceBound prices(along.graph, budget, along.on_chain);
      std::vector<int> moments;
      for (int t = 0; t < along.graph.end(); ++t) {
        if (along.on_chain[t]) moments.push_back(t);
      }
      if (moments.empty() || prices.infeasible()) continue;
      const double least = cheapest.cost(budget, testing::Sequences::any_order);
      const double value = optimum_at(along.graph, prices, moments);
      ASSERT_LE(value, least * (1 + kTolerance));
      above_keep_all += least < kNever && value > stages.required_cost() * (1 + kTolerance);
      ++compared;
    }
  }
  EXPECT_GT(above_keep_all, 10);
}

/// A price is a relaxation of the limit at this moment.
TEST(MomentsProgram, OfOneMomentIsAtLeastItsPriceBound) {
  int compared = 0;
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    const remat::StageGraph graph(testing::random_step(seed, 20, 20));
    const Bytes budget = remat::keep_all_peak(graph) * 7 / 10;
    PriceBound prices(graph, budget);
    prices.raise(4, Gluing::strict, 1e5, Control());
    const MomentBound one = moment_bound(graph, prices, Control());
    if (prices.infeasible() || one.stage == kNone || one.value <= graph.required_cost()) continue;
    EXPECT_GE(optimum_at(graph, prices, {one.stage}), one.value * (1 - kTolerance));
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

/// Rounds that add moments, for the graph's order and along a chain.
TEST(MomentsBound, IsAboveThePricesAndBelowThePlan) {
  int higher = 0;
  for (unsigned seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_step(seed, 15, 15);
    const remat::StageGraph stages(graph);
    const Bytes budget = remat::keep_all_peak(stages) * 6 / 10;
    const PriceBound prices = raised_bound(stages, budget);
    const auto found = testing::ask("search", graph, budget, testing::short_search("search", 3));
    if (prices.infeasible() || found.executions.empty()) continue;
    certify::Certificate certificate = certificate_of(graph, stages, prices, budget);
    const double cost = lower(graph, found.executions).cost;
    const double in_order = moments_bound(graph, certificate, cost, Control::by_work(0.2));
    EXPECT_LE(in_order, cost * (1 + kTolerance));
    higher += in_order > prices.value() * (1 + kTolerance);

    const ordering::Precedence precedence(graph, stages, ordering::Orders::valid);
    const OpChain chain = heaviest_chain(precedence, prices.prices().each());
    certificate.chain.emplace();
    for (int i : chain) certificate.chain->push_back(stages.stage(i).op);
    const double in_any = moments_bound(graph, certificate, cost, Control::by_work(0.2));
    EXPECT_LE(in_any, cost * (1 + kTolerance));
  }
  EXPECT_GT(higher, 3);
}

TEST(MomentsBound, EndsWhenItIsToldTo) {
  const Graph graph = testing::random_step(3, 25, 25);
  const remat::StageGraph stages(graph);
  const Bytes budget = remat::keep_all_peak(stages) * 6 / 10;
  const PriceBound prices = raised_bound(stages, budget);
  const certify::Certificate certificate = certificate_of(graph, stages, prices, budget);
  EXPECT_EQ(moments_bound(graph, certificate, kNever, Control::by_work(1e-9)), 0);
}

}  // namespace
}  // namespace lowtide::bounds
