#include "planner/more_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "certify/check.h"
#include "support/brute_force.h"
#include "support/random_graph.h"
#include "support/recurrent_step.h"
#include "support/sweep.h"

namespace lowtide::testing {
namespace {

planner::Planned searched(const Graph& graph, Bytes budget) {
  Control control;
  return planner::plan_within(graph, strategy::find_strategy("search"), budget,
                              {{"moves", 10}, {"bound", 0.001}}, control);
}

TEST(MoreBudget, NoPlanOfAllSavesMoreThanTheBoundAllows) {
  int compared = 0;
  int below_all_excess = 0;
  for (std::uint64_t seed = 0; compared < testing::sweep(100, 35); ++seed) {
    const Graph graph = random_graph(seed, {.ops = 6 + static_cast<int>(seed % 5)});
    const remat::StageGraph stages(graph);
    const std::vector<remat::Event> events = allowed_events(stages);
    if (events.size() < 3 || events.size() > 10) continue;
    const std::vector<Candidate> plans = all_plans(graph, stages, events);
    const auto budget = static_cast<Bytes>(0.8 * static_cast<double>(plans.front().peak));
    if (least_cost(plans, &Candidate::in_place_peak, budget) == kNever) continue;
    const planner::Planned planned = searched(graph, budget);
    if (!planned.plan) continue;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    ++compared;
    for (Bytes extra : {Bytes{0}, budget / 50, budget / 10, budget}) {
      const planner::MoreBudget more = planner::bound_with_more(graph, planned, extra);
      ASSERT_TRUE(more.saves_at_most);
      const double optimum = least_cost(plans, &Candidate::in_place_peak, budget + extra);
      EXPECT_GE(optimum, (planned.plan->cost - *more.saves_at_most) * (1 - 1e-9));
      const double excess = planned.plan->cost - stages.required_cost();
      EXPECT_LE(*more.saves_at_most, excess + 1e-9);
      below_all_excess += *more.saves_at_most < excess - 1e-6;
    }
  }
  EXPECT_GT(below_all_excess, 5);
}

TEST(MoreBudget, ClaimsNoMoreThanTheCasesProve) {
  const Graph graph = recurrent_step();
  const std::vector<Bytes> budgets = {4300, 5099, 5000};
  for (Bytes budget : std::span(budgets).first(testing::sweep(3u, 1u))) {
    const planner::Planned planned = searched(graph, budget);
    ASSERT_TRUE(planned.plan && planned.certificate);
    EXPECT_TRUE(planned.certificate->split);
    for (Bytes extra : {Bytes{1}, 5185 - budget, budget}) {
      SCOPED_TRACE(::testing::Message() << budget << " and " << extra << " more");
      certify::Certificate larger = *planned.certificate;
      larger.budget_bytes += extra;
      const double proved = std::get<double>(certify::proved_bound(graph, larger));
      const planner::MoreBudget more = planner::bound_with_more(graph, planned, extra);
      ASSERT_TRUE(more.saves_at_most);
      EXPECT_GE(*more.saves_at_most, (planned.plan->cost - proved) * (1 - 1e-9));
      EXPECT_GE(*more.saves_at_most,
                planned.plan->cost - searched(graph, budget + extra).plan.value().cost);
    }
  }
}

TEST(MoreBudget, APlanSavesNoMoreThanTheBoundSays) {
  const Graph graph = chain_graph(12);
  const Bytes budget = 11 * 1024;
  const planner::Planned planned = searched(graph, budget);
  ASSERT_TRUE(planned.plan) << planned.message;
  Control control;
  const planner::MoreBudget more =
      planner::plan_with_more(graph, strategy::find_strategy("search"), planned, 1024,
                              {{"moves", 10}, {"bound", 0.001}}, control);
  ASSERT_TRUE(more.saves && more.saves_at_most);
  EXPECT_EQ(*more.saves, planned.plan->cost - searched(graph, budget + 1024).plan->cost);
  EXPECT_GT(*more.saves, 0);
  EXPECT_LE(*more.saves, *more.saves_at_most + 1e-9);
  EXPECT_THAT(planner::format_more(more, planned), ::testing::HasSubstr("With 1.00 KiB more"));
}

TEST(MoreBudget, SaysNothingOfABoundThatThereIsNot) {
  const Graph graph = chain_graph(5);
  Control control;
  const planner::Planned planned =
      planner::plan_within(graph, strategy::find_strategy("chen-sqrt"), 1 << 20, {}, control);
  EXPECT_FALSE(planner::bound_with_more(graph, planned, 100).saves_at_most);
}

TEST(MoreBudget, AsksForAGigabyteOrATenth) {
  constexpr Bytes kGiB = Bytes{1} << 30;
  EXPECT_EQ(planner::worth_asking_for(100 * kGiB), kGiB);
  EXPECT_EQ(planner::worth_asking_for(1000), 100);
}

}  // namespace
}  // namespace lowtide::testing
