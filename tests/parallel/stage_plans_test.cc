#include "parallel/stage_plans.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "support/sweep.h"

namespace lowtide::testing {
namespace {

using parallel::StagePlan;
using parallel::StagePlans;
using parallel::Unit;
using parallel::UnitPlan;

UnitPlan random_plan(std::mt19937_64& random) {
  UnitPlan plan;
  plan.held_bytes = static_cast<Bytes>(random() % 30);
  plan.working_bytes = static_cast<Bytes>(random() % 12);
  plan.forward_seconds = 1;
  plan.backward_seconds = 1 + static_cast<double>(random() % 20);
  return plan;
}

std::vector<Unit> random_units(std::mt19937_64& random, int kinds, int most_plans) {
  std::vector<Unit> units(static_cast<std::size_t>(kinds));
  for (Unit& unit : units) {
    const int plans = 1 + static_cast<int>(random() % most_plans);
    for (int i = 0; i < plans; ++i) unit.plans.push_back(random_plan(random));
  }
  return units;
}

/// Calls with each choice of a plan for each of the units first .. last.
void each_choice(const StagePlans& plans, int first, int last,
                 const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> chosen;
  std::function<void()> extend = [&] {
    const int position = first + static_cast<int>(chosen.size());
    if (position > last) return visit(chosen);
    for (int p = 0; p < static_cast<int>(plans.unit(position).plans.size()); ++p) {
      chosen.push_back(p);
      extend();
      chosen.pop_back();
    }
  };
  extend();
}

StagePlan counted(const StagePlans& plans, int first, const std::vector<int>& chosen) {
  StagePlan sum;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const UnitPlan& plan = plans.unit(first + static_cast<int>(i)).plans[chosen[i]];
    sum.held_bytes += plan.held_bytes;
    sum.working_bytes = std::max(sum.working_bytes, plan.working_bytes);
    sum.backward_seconds += plan.backward_seconds;
  }
  return sum;
}

TEST(StagePlans, AreTheFastestOfAllChoicesThatFit) {
  int feasible = 0;
  for (std::uint64_t seed = 0; seed < sweep(4000U, 400U); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    // At most eight working sets, as many as are told apart.
    StagePlans plans(random_units(random, 2, 4), {0, 1, 1, 1, 0});
    const int first = static_cast<int>(random() % 3), last = first + static_cast<int>(random() % 3);
    const auto in_flight = 1 + static_cast<std::int64_t>(random() % 4);
    const auto available = static_cast<Bytes>(random() % 400);
    const auto others = seed % 2 == 0 ? 0 : static_cast<Bytes>(random() % 40);
    double least = std::numeric_limits<double>::infinity();
    Bytes smallest = std::numeric_limits<Bytes>::max();
    each_choice(plans, first, last, [&](const std::vector<int>& chosen) {
      const StagePlan plan = counted(plans, first, chosen);
      const Bytes held = plan.held_bytes * in_flight;
      smallest = std::min(smallest, held + plan.working_bytes);
      if (held + std::max(plan.working_bytes, others) > available) return;
      least = std::min(least, plan.backward_seconds);
    });
    EXPECT_EQ(plans.least_bytes(first, last, in_flight), smallest);
    const std::optional<StagePlan> found =
        plans.fastest_with_plans(first, last, available, in_flight, others);
    ASSERT_EQ(found.has_value(), !std::isinf(least));
    EXPECT_EQ(plans.fastest(first, last, available, in_flight, others).has_value(),
              found.has_value());
    if (!found) continue;
    ++feasible;
    EXPECT_DOUBLE_EQ(found->backward_seconds, least);
    const StagePlan again = counted(plans, first, found->plans);
    EXPECT_EQ(again.held_bytes, found->held_bytes);
    EXPECT_EQ(again.working_bytes, found->working_bytes);
    EXPECT_DOUBLE_EQ(again.backward_seconds, found->backward_seconds);
    EXPECT_LE(found->held_bytes * in_flight + found->working_bytes, available);
  }
  EXPECT_GT(feasible, 100);
}

/// With more sums than are told apart, plans still fit, and more memory never makes one slower.
TEST(StagePlans, OfManyUnitsFitAndGetFasterWithMemory) {
  std::mt19937_64 random(7);
  std::vector<Unit> units(1);
  for (int i = 0; i < 20; ++i) {
    UnitPlan plan;
    plan.held_bytes = 1000 + static_cast<Bytes>(random() % 1'000'000);
    plan.working_bytes = static_cast<Bytes>(random() % 1'000'000);
    plan.backward_seconds = 1e6 / static_cast<double>(plan.held_bytes);
    units[0].plans.push_back(plan);
  }
  StagePlans plans(units, std::vector<int>(40, 0));
  const Bytes least = plans.least_bytes(0, 39, 3);
  EXPECT_FALSE(plans.fastest(0, 39, least - 1, 3).has_value());
  double before = std::numeric_limits<double>::infinity();
  for (Bytes available = least; available < 3 * 40'000'000; available += 1'234'567) {
    const std::optional<StagePlan> found = plans.fastest_with_plans(0, 39, available, 3);
    ASSERT_TRUE(found.has_value());
    EXPECT_LE(counted(plans, 0, found->plans).held_bytes * 3 + found->working_bytes, available);
    EXPECT_LE(found->backward_seconds, before);
    before = found->backward_seconds;
  }
}

}  // namespace
}  // namespace lowtide::testing
