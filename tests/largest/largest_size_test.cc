#include "largest/largest_size.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "plan/replay.h"
#include "plan/verify.h"
#include "planner/does_not_fit.h"
#include "support/random_graph.h"
#include "support/sweep.h"

namespace lowtide::largest {
namespace {

/// Values, costs and workspaces of a graph, times so many.
Graph of_size(const Graph& unit, std::int64_t size) {
  GraphData data = unit.data();
  for (Tensor& tensor : data.tensors) {
    if (tensor.kind == Kind::value) tensor.bytes *= size;
  }
  for (Op& op : data.ops) {
    op.cost *= static_cast<double>(size);
    op.workspace_bytes *= size;
  }
  return Graph(std::move(data));
}

Question question(Bytes budget, std::int64_t last = 300) {
  return {.sizes = {.first = 1, .last = last, .multiple = 1},
          .what = "batch",
          .budget_bytes = budget,
          .extra = {},
          .strategy = &strategy::default_strategy(),
          .strategy_options = {{"moves", 5}, {"bound", 0.001}},
          .seconds = 0,
          .listener = {}};
}

/// Whether planning by itself, without plans of other sizes, finds a plan.
bool has_plan(const Graph& graph, const Question& question) {
  Control control(question.seconds);
  const planner::Planned planned = planner::plan_within(
      graph, *question.strategy, question.budget_bytes, question.strategy_options, control);
  return planned.plan && planned.plan->cost <= cost_limit(graph, question.extra);
}

class LargestSizeTest : public ::testing::Test {
 protected:
  void SetUp() override { Control::clear_stop(); }
  void TearDown() override { Control::clear_stop(); }
};

TEST_F(LargestSizeTest, ThePlanKeepsTheBudgetAndTheNextSizeHasNone) {
  int proved = 0;
  for (std::uint64_t seed = 0; seed < testing::sweep(20U, 2U); ++seed) {
    SCOPED_TRACE(seed);
    const Graph unit = of_size(testing::random_step(seed, 8, 8), kArenaAlignment);
    UnmeasuredSteps steps([&](std::int64_t size) { return of_size(unit, size); });
    for (const char* extra : {"any", "30%", "forward", "0%"}) {
      SCOPED_TRACE(extra);
      Question asked = question(9 * keep_all_reference(unit).peak_bytes);
      asked.extra = parse_extra_time(extra);
      const Largest found = largest_size(asked, steps);
      const Graph graph = of_size(unit, found.size);
      ASSERT_TRUE(found.planned.plan);
      EXPECT_FALSE(verify(graph, *found.planned.plan, asked.budget_bytes));
      EXPECT_LE(found.planned.plan->layout->arena_bytes, asked.budget_bytes);
      EXPECT_LE(found.planned.plan->cost, cost_limit(graph, asked.extra));
      EXPECT_EQ(found.evidence, Evidence::estimated);
      EXPECT_FALSE(found.stopped);
      ASSERT_TRUE(found.too_large);
      EXPECT_EQ(*found.too_large, found.size + 1);
      EXPECT_FALSE(found.why_too_large.empty());
      EXPECT_FALSE(has_plan(of_size(unit, *found.too_large), asked));
      proved += found.too_large_evidence == Evidence::bound;
    }
  }
  EXPECT_GT(proved, 0);
}

TEST_F(LargestSizeTest, WithoutReruns) {
  // Keep-all of a chain grows by a fixed number of bytes with each size: a division tells.
  const Graph unit = testing::chain_graph(10, 64);
  UnmeasuredSteps steps([&](std::int64_t size) { return of_size(unit, size); });
  for (const Bytes budget : {20000, 33333}) {
    Question asked = question(budget);
    asked.extra = parse_extra_time("0%");
    const Largest found = largest_size(asked, steps);
    const Bytes fixed = unit.resident_bytes();
    EXPECT_EQ(found.size, (budget - fixed) / (keep_all_reference(unit).peak_bytes - fixed));
    EXPECT_EQ(found.planned.overhead(), 0);
  }
}

TEST_F(LargestSizeTest, AllThatMayBeTriedMayFit) {
  const Graph unit = testing::chain_graph(10, 64);
  UnmeasuredSteps steps([&](std::int64_t size) { return of_size(unit, size); });
  Question asked = question(Bytes{1} << 30, 30);
  asked.sizes.multiple = 7;
  const Largest found = largest_size(asked, steps);
  EXPECT_EQ(found.size, 28);
  EXPECT_EQ(found.too_large, std::nullopt);
}

TEST_F(LargestSizeTest, NothingFits) {
  const Graph unit = testing::chain_graph(10, 64);
  UnmeasuredSteps steps([&](std::int64_t size) { return of_size(unit, size); });
  EXPECT_THROW(largest_size(question(100), steps), planner::DoesNotFit);
  Question asked = question(1500);
  asked.sizes.first = 3;  // needs reruns
  asked.extra = parse_extra_time("0%");
  EXPECT_THROW(largest_size(asked, steps), InfeasibleError);
}

/// Steps whose ops work in so many bytes more for each size than is known before they are
/// measured, or less if negative, and which exceed the budget when they run, from a size on.
class SurprisingSteps : public Steps {
 public:
  SurprisingSteps(Graph unit, Bytes more, std::int64_t exceeds, Bytes budget)
      : unit_(std::move(unit)), more_(more), exceeds_(exceeds), budget_(budget) {}

  Graph bare(std::int64_t size) override { return of_size(unit_, size); }
  void expect(std::int64_t largest) override { expected = largest; }
  Graph estimated(std::int64_t size) override {
    GraphData data = of_size(unit_, size).data();
    for (Op& op : data.ops) {
      op.workspace_bytes += std::max<Bytes>(0, -more_) * size;
      op.cost_estimated = true;
    }
    return Graph(std::move(data));
  }
  bool are_measured() const override { return true; }
  Graph measured(std::int64_t size) override {
    has_measured = true;
    if (stop_at == size) Control::request_stop();
    if (Control::stop_requested()) throw StoppedError("stopped while measuring");
    GraphData data = of_size(unit_, size).data();
    for (Op& op : data.ops) {
      op.workspace_bytes += std::max<Bytes>(0, more_) * size;
      op.cost_estimated = false;
    }
    return Graph(std::move(data));
  }
  Bytes reserved_bytes(const Graph& /*graph*/) override { return kReserved; }
  std::optional<StepRun> run(std::int64_t size, const Graph& graph,
                             const planner::Planned& planned) override {
    EXPECT_FALSE(verify(graph, *planned.plan, budget_ - kReserved));
    ran.push_back(size);
    return StepRun{size >= exceeds_ ? budget_ + 1 : planned.plan->peak_bytes + kReserved, 0.1};
  }

  static constexpr Bytes kReserved = 100;
  std::optional<std::int64_t> stop_at;
  std::int64_t expected = 0;
  bool has_measured = false;
  std::vector<std::int64_t> ran;

 private:
  Graph unit_;
  Bytes more_;
  std::int64_t exceeds_;
  Bytes budget_;
};

TEST_F(LargestSizeTest, MeasurementsDecide) {
  const Graph unit = testing::chain_graph(10, 64);
  const Question asked = question(20000);
  for (const Bytes more : {0, 40, 300}) {
    SCOPED_TRACE(more);
    SurprisingSteps steps(unit, more, 1000, asked.budget_bytes);
    const Largest found = largest_size(asked, steps);
    EXPECT_EQ(found.evidence, Evidence::run);
    EXPECT_GE(steps.expected, found.size);
    EXPECT_EQ(std::ranges::max(steps.ran), found.size);
    ASSERT_EQ(found.too_large, found.size + 1);
    Question less = asked;
    less.budget_bytes -= SurprisingSteps::kReserved;
    EXPECT_TRUE(has_plan(steps.measured(found.size), less));
    EXPECT_FALSE(has_plan(steps.measured(found.size + 1), less));
    EXPECT_TRUE(found.trials.back().error);
  }
}

TEST_F(LargestSizeTest, SizesThatOnlyEstimatesRefuseAreMeasured) {
  const Graph unit = testing::chain_graph(10, 64);
  const Question asked = question(20000);
  SurprisingSteps exact(unit, 0, 1000, asked.budget_bytes);
  const std::int64_t expected = largest_size(asked, exact).size;
  SurprisingSteps steps(unit, -300, 1000, asked.budget_bytes);
  const Largest found = largest_size(asked, steps);
  EXPECT_EQ(found.size, expected);
  EXPECT_EQ(found.too_large, expected + 1);
  EXPECT_NE(found.too_large_evidence, Evidence::estimated);
  const auto refused = std::ranges::find_if(found.trials, [&](const Trial& trial) {
    return trial.evidence == Evidence::estimated && !trial.fits && trial.size <= expected;
  });
  EXPECT_NE(refused, found.trials.end());
}

TEST_F(LargestSizeTest, AStepThatExceedsTheBudgetDoesNotFit) {
  const Question asked = question(20000);
  SurprisingSteps steps(testing::chain_graph(10, 64), 0, 9, asked.budget_bytes);
  const Largest found = largest_size(asked, steps);
  EXPECT_EQ(found.size, 8);
  EXPECT_EQ(found.too_large, 9);
  EXPECT_EQ(found.too_large_evidence, Evidence::run);
}

TEST_F(LargestSizeTest, NoStepKeepsTheBudget) {
  const Question asked = question(20000);
  SurprisingSteps steps(testing::chain_graph(10, 64), 0, 1, asked.budget_bytes);
  EXPECT_THROW(largest_size(asked, steps), InfeasibleError);
  EXPECT_EQ(steps.ran.back(), 1);
}

TEST_F(LargestSizeTest, WhatCannotFitIsNotMeasured) {
  const Graph unit = testing::chain_graph(10, 64);
  for (std::int64_t first : {1000, 1000000}) {
    Question asked = question(20000, 2 * first);
    asked.sizes.first = first;
    SurprisingSteps steps(unit, 40, 2 * first, asked.budget_bytes);
    EXPECT_THROW(largest_size(asked, steps), planner::DoesNotFit);
    EXPECT_EQ(steps.expected, 0);
    EXPECT_FALSE(steps.has_measured);
    EXPECT_TRUE(steps.ran.empty());
  }
}

TEST_F(LargestSizeTest, AStopKeepsTheBestSoFar) {
  const Question asked = question(20000);
  SurprisingSteps whole(testing::chain_graph(10, 64), 40, 1000, asked.budget_bytes);
  const Largest all = largest_size(asked, whole);
  ASSERT_GE(whole.ran.size(), 1U);
  for (const std::int64_t at : {whole.ran.front(), all.size + 1}) {
    SCOPED_TRACE(at);
    Control::clear_stop();
    SurprisingSteps steps(testing::chain_graph(10, 64), 40, 1000, asked.budget_bytes);
    steps.stop_at = at;
    const Largest found = largest_size(asked, steps);
    EXPECT_TRUE(found.stopped);
    EXPECT_TRUE(found.planned.plan);
    EXPECT_EQ(found.evidence, steps.ran.empty() ? Evidence::estimated : Evidence::run);
    if (!steps.ran.empty()) {
      EXPECT_EQ(found.size, all.size);
    }
  }
}

TEST_F(LargestSizeTest, AStopBeforeAnySizeFitsIsSaid) {
  UnmeasuredSteps steps([&](std::int64_t size) {
    Control::request_stop();
    return of_size(testing::chain_graph(10, 64), size);
  });
  EXPECT_THROW(largest_size(question(20000), steps), StoppedError);
}

}  // namespace
}  // namespace lowtide::largest
