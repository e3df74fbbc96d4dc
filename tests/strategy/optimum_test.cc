// Search and bound against the best of all sets of reruns, on graphs small enough to try them all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <variant>
#include <vector>

#include "bounds/certificate.h"
#include "bounds/price_bound.h"
#include "bounds/raised.h"
#include "certify/check.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/verify.h"
#include "support/ask.h"
#include "support/random_graph.h"
#include "support/tiny_graphs.h"
#include "support/sweep.h"

namespace lowtide::strategy {
namespace {

using testing::ask;
using testing::Candidate;
using testing::kNever;
using testing::least_cost;
using testing::Tiny;
using testing::TinyGraphs;

void compare(const Tiny& tiny, Bytes budget) {
  const double optimum = least_cost(tiny.plans, &Candidate::in_place_peak, budget);
  const Decision decision =
      ask("search", tiny.graph, budget, {{"moves", 20}, {"bound", 0.001}, {"order", 0}});
  if (decision.lower_bound) {
    EXPECT_LE(*decision.lower_bound, optimum * (1 + 1e-9));
  }
  if (optimum == kNever) {
    EXPECT_EQ(decision.outcome, Outcome::infeasible);
    return;
  }
  ASSERT_FALSE(decision.executions.empty()) << decision.message;
  const Plan plan = with_in_place(tiny.graph, lower(tiny.graph, decision.executions));
  EXPECT_LE(plan.peak_bytes, budget);
  EXPECT_NEAR(plan.cost, optimum, 1e-6);
}

TEST(Optimum, SearchReachesItAndTheBoundStaysBelow) {
  TinyGraphs graphs(0);
  for (int i = 0; i < testing::sweep(60, 10); ++i) {
    const Tiny tiny = graphs.next();
    SCOPED_TRACE(tiny.graph.name());
    const Bytes keep_all = tiny.plans.front().peak;
    for (double share : {0.95, 0.85, 0.75, 0.6}) {
      SCOPED_TRACE(::testing::Message() << "budget " << share);
      compare(tiny, static_cast<Bytes>(share * static_cast<double>(keep_all)));
    }
  }
}

TEST(PriceBound, IsBelowEveryPlanForEverySizeOfCluster) {
  TinyGraphs graphs(1000);
  for (int i = 0; i < 40; ++i) {
    const Tiny tiny = graphs.next();
    SCOPED_TRACE(tiny.graph.name());
    for (const Candidate& target : std::span(tiny.plans).first(7)) {
      const Bytes budget = target.in_place_peak;
      bounds::PriceBound bound(tiny.stages, budget);
      ASSERT_FALSE(bound.infeasible());
      const double optimum = least_cost(tiny.plans, &Candidate::in_place_peak, budget);
      for (int values : {1, 2, 5, 9}) {
        for (bounds::Gluing gluing : {bounds::Gluing::loose, bounds::Gluing::strict}) {
          bound.raise(values, gluing, 1e5, Control());
        }
        ASSERT_LE(bound.value(), optimum * (1 + 1e-9)) << values << " values";
      }
    }
  }
}

TEST(PriceBound, AllowsForEveryByteThatMayBeWrittenOver) {
  // The verifier lets a small output overwrite a larger input, which then is gone.
  GraphData data;
  data.tensors = {testing::resident("x", 8), testing::value("a", 100), testing::value("b", 10)};
  data.ops = {testing::op("make", {0}, {1}), testing::op("shrink", {1}, {2})};
  data.ops[1].inplace = {{0, 0}};
  data.outputs = {2};
  const Graph graph(std::move(data));
  Plan plan;
  plan.actions = {testing::run(0), testing::run(1, {0})};
  plan.cost = 2;
  plan.peak_bytes = plan.budget_bytes.emplace(108);
  ASSERT_FALSE(verify(graph, plan));
  const remat::StageGraph stages(graph);
  const bounds::PriceBound bound(stages, 108);
  EXPECT_FALSE(bound.infeasible());
}

TEST(PriceBound, IsTightOnAChainWithinRounding) {
  // Twenty equal layers at seven tenths of the memory: the plan costs at least some reruns.
  const Graph graph = testing::chain_graph(20);
  const remat::StageGraph stages(graph);
  bounds::PriceBound bound(stages, testing::share_of_peak(graph, 0.7));
  for (int values : {1, 6}) bound.raise(values, bounds::Gluing::loose, 1e6, Control());
  const Decision decision = ask("search", graph, testing::share_of_peak(graph, 0.7));
  const double cost = lower(graph, decision.executions).cost;
  EXPECT_GT(bound.value(), stages.required_cost() + 1);
  EXPECT_LT(cost - bound.value(), 2);  // two runs of a forward op
}

TEST(PriceBound, GoesOnFromThePricesOfACertificate) {
  const Graph graph = testing::chain_graph(20);
  const remat::StageGraph stages(graph);
  const Bytes budget = testing::share_of_peak(graph, 0.7);
  bounds::PriceBound first(stages, budget);
  first.raise(6, bounds::Gluing::loose, 1e6, Control());
  ASSERT_GT(first.value(), stages.required_cost());
  const certify::Certificate certificate = bounds::certificate_of(graph, stages, first, budget);
  bounds::PriceBound second(stages, budget);
  second.start_from(bounds::stage_prices(stages, bounds::op_prices(certificate)));
  second.raise(6, bounds::Gluing::loose, 0, Control());
  EXPECT_GE(second.value(), first.value() * (1 - 1e-9));
  bounds::PriceBound less(stages, budget - 1);
  less.start_from(bounds::stage_prices(stages, bounds::op_prices(certificate)));
  less.raise(6, bounds::Gluing::loose, 0, Control());
  EXPECT_GE(less.value(), first.value() * (1 - 1e-9));
}

TEST(Raised, ProvesMoreThanTheCertificateThatItGoesOnFrom) {
  const Graph graph = testing::chain_graph(40);
  const remat::StageGraph stages(graph);
  const Bytes budget = testing::share_of_peak(graph, 0.6);
  bounds::PriceBound bound(stages, budget);
  bound.raise(1, bounds::Gluing::loose, 0, Control());
  const certify::Certificate certificate = bounds::certificate_of(graph, stages, bound, budget);
  const auto higher = bounds::raised(graph, certificate, Control());
  ASSERT_TRUE(higher);
  EXPECT_GT(higher->lower_bound, certificate.lower_bound);
  const auto proved = certify::proved_bound(graph, *higher);
  ASSERT_TRUE(std::holds_alternative<double>(proved));
  EXPECT_GE(std::get<double>(proved), higher->lower_bound * (1 - 1e-9));
  const Decision decision = ask("search", graph, budget);
  EXPECT_LE(higher->lower_bound, lower(graph, decision.executions).cost);
}

TEST(PriceBound, TakesNoPricesThatProveNothing) {
  const Graph graph = testing::chain_graph(20);
  const remat::StageGraph stages(graph);
  bounds::PriceBound bound(stages, testing::share_of_peak(graph, 0.7));
  bound.start_from(std::vector<double>(stages.num_stages(), 1e6));
  EXPECT_EQ(bound.value(), stages.required_cost());
  EXPECT_THAT(bound.prices().each(), ::testing::Each(0.0));
}

}  // namespace
}  // namespace lowtide::strategy
