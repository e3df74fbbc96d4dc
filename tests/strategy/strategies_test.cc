// Every strategy of the registry, on random graphs and on real ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/io.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "planner/planner.h"
#include "support/ask.h"
#include "support/check_plan.h"
#include "support/random_graph.h"
#include "support/sweep.h"

namespace lowtide::strategy {
namespace {

using testing::ask;
using testing::random_graph;
using testing::share_of_peak;
using testing::short_search;

/// Plans of one strategy, checked at the end by the verifier and by the checker in Python.
class Answers {
 public:
  explicit Answers(std::string name) : name_(std::move(name)) {}

  /// A strategy may say that a graph is too large for it, but not of every graph.
  void check(const Graph& graph, Bytes budget, double thousand_moves) {
    try {
      check_answer(graph, budget, thousand_moves);
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("rows and"));
    }
  }

  void expect_valid() const {
    EXPECT_GE(cases_.size(), 2u);
    EXPECT_TRUE(testing::are_valid_plans(std::vector(cases_.begin(), cases_.end())));
  }

 private:
  /// Asks for `budget`; if that is infeasible, asks for the named budget, which must suffice.
  void check_answer(const Graph& graph, Bytes budget, double thousand_moves) {
    const GivenOptions options = short_search(name_, thousand_moves);
    const Decision decision = ask(name_, graph, budget, options);
    if (decision.outcome != Outcome::infeasible) return accept(graph, decision, budget);
    ASSERT_TRUE(decision.smallest_peak);
    ASSERT_GT(*decision.smallest_peak, budget);
    EXPECT_THAT(decision.message, ::testing::HasSubstr(std::to_string(*decision.smallest_peak)));
    const Plan smallest = with_in_place(graph, lower(graph, decision.smallest_executions));
    EXPECT_EQ(smallest.peak_bytes, *decision.smallest_peak);
    const Decision again = ask(name_, graph, *decision.smallest_peak, options);
    ASSERT_NE(again.outcome, Outcome::infeasible) << again.message;
    accept(graph, again, *decision.smallest_peak);
  }

  void accept(const Graph& graph, const Decision& decision, Bytes budget) {
    ASSERT_TRUE(decision.outcome == Outcome::feasible || decision.outcome == Outcome::optimal);
    Plan plan = with_in_place(graph, lower(graph, decision.executions));
    EXPECT_LE(plan.peak_bytes, budget);
    plan.strategy = name_;
    plan.budget_bytes = budget;
    if (decision.lower_bound) {
      EXPECT_LE(*decision.lower_bound, plan.cost * (1 + 1e-9));
    }
    cases_.push_back({&graph, &plans_.emplace_back(std::move(plan))});
  }

  std::string name_;
  std::deque<Plan> plans_;
  std::vector<testing::PlanCase> cases_;
};

class EveryStrategy : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryStrategy, PlansRandomGraphs) {
  Answers answers(GetParam());
  std::deque<Graph> graphs;
  const std::uint64_t step = 40 / testing::sweep(40u, 10u);
  for (std::uint64_t seed = 0; seed < 40; seed += step) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph& graph =
        graphs.emplace_back(random_graph(seed, {.ops = 12 + static_cast<int>(seed)}));
    for (double share : {1.0, 0.8, 0.6, 0.3}) answers.check(graph, share_of_peak(graph, share), 5);
  }
  answers.expect_valid();
}

TEST_P(EveryStrategy, PlansRealGraphs) {
  Answers answers(GetParam());
  std::deque<Graph> graphs;
  const std::vector<const char*> names = {"chain-29s3",  "checkmate-unet", "layered-100",
                                          "chain-20s0",  "torch-resnet50", "torch-unet",
                                          "checkmate-resnet50"};
  for (const char* name : std::span(names).first(testing::sweep(names.size(), std::size_t{5}))) {
    SCOPED_TRACE(name);
    const Graph& graph = graphs.emplace_back(
        read_graph(std::string(LOWTIDE_SOURCE_DIR "/data/graphs/") + name + ".json"));
    const double moves = testing::sweep(20, 10);
    answers.check(graph, share_of_peak(graph, 0.5), moves);
    // Which most strategies refuse: that of the fewest bytes takes long to find on a large graph.
    const bool is_small = graph.num_ops() < 100;
    if (testing::sweep(true, is_small)) answers.check(graph, share_of_peak(graph, 0.2), moves);
    if (testing::sweep(true, false)) answers.check(graph, share_of_peak(graph, 0.8), moves);
  }
  answers.expect_valid();
}

/// A plan that runs nothing is a plan.
TEST_P(EveryStrategy, HasAPlanWhereNothingIsNeeded) {
  GraphData data = testing::chain_graph(4).data();
  data.outputs.clear();
  const Graph graph(std::move(data));
  const Bytes budget = graph.resident_bytes();
  Control control;
  const planner::Planned planned = planner::plan_within(
      graph, find_strategy(GetParam()), budget, short_search(GetParam(), 1), control);
  if (planned.plan) return;
  EXPECT_GT(planned.smallest_budget, budget) << planned.message;
}

/// A value that must be made again, and so must the view that is read, which costs more.
Graph step_with_a_costly_view() {
  using testing::op, testing::value;
  GraphData data;
  data.name = "costly view";
  data.tensors = {value("a", 10),        value("view of a", 0), value("first", 1),
                  value("largest", 100), value("small", 1),     value("last", 1)};
  data.tensors[1].alias_of = 0;
  data.ops = {op("make a", {}, {0}),   op("view", {0}, {1}, 5),     op("read", {1}, {2}),
              op("peak", {2}, {3}),    op("after", {3}, {4}),       op("read again", {1, 4}, {5})};
  data.outputs = {5};
  return Graph(std::move(data));
}

TEST_P(EveryStrategy, SaysOptimalOnlyOfWhatThePlanCosts) {
  const Graph graph = step_with_a_costly_view();
  const Decision decision = ask(GetParam(), graph, 102, short_search(GetParam(), 10));
  if (decision.outcome != Outcome::optimal) return;
  EXPECT_NEAR(decision.lower_bound.value_or(0), lower(graph, decision.executions).cost, 1e-6);
}

/// Where each value has many readers, too. The processor's time counts, as the machine may be busy.
TEST_P(EveryStrategy, EndsWithTheTimeLimit) {
  const Graph graph = testing::wide_step(1000, 100);
  const Control control(0.05);
  const std::clock_t start = std::clock();
  try {
    ask(GetParam(), graph, share_of_peak(graph, 0.6), {}, control);
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("rows and"));
  }
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 4);
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryStrategy, ::testing::ValuesIn(testing::strategy_names()),
                         [](const auto& info) { return testing::test_name(info.param); });

TEST(Registry, DescribesEachStrategyOnce) {
  std::set<std::string_view> names;
  for (const Strategy& strategy : strategies()) {
    EXPECT_TRUE(names.insert(strategy.name).second) << strategy.name;
    EXPECT_FALSE(strategy.summary.empty());
    EXPECT_FALSE(strategy.guarantee.empty());
    EXPECT_FALSE(strategy.paper.empty());
    for (const StrategyOption& option : strategy.options) {
      EXPECT_LE(option.low, option.default_value) << option.name;
      EXPECT_LE(option.default_value, option.high) << option.name;
    }
  }
  EXPECT_EQ(default_strategy().name, "search");
}

TEST(Registry, NamesTheNearestOfAnUnknownStrategy) {
  try {
    find_strategy("chen-sqr");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("chen-sqrt"));
  }
}

TEST(Search, GivesTheSamePlanAgain) {
  const Graph graph = random_graph(7, {.ops = 60});
  const Bytes budget = share_of_peak(graph, 0.8);
  const GivenOptions options{{"moves", 30}, {"bound", 0.001}};
  EXPECT_EQ(ask("search", graph, budget, options).executions,
            ask("search", graph, budget, options).executions);
}

TEST(Search, KeepsAllWhenThatFitsAndSaysThatThisIsOptimal) {
  const Graph graph = testing::chain_graph(10);
  const Decision decision = ask("search", graph, share_of_peak(graph, 1));
  EXPECT_EQ(decision.outcome, Outcome::optimal);
  EXPECT_EQ(lower(graph, decision.executions).cost, keep_all_reference(graph).cost);
}

TEST(Search, EndsWhenTheUserSaysSo) {
  const Graph graph = testing::chain_graph(50);
  Control::request_stop();
  const Decision decision = ask("search", graph, share_of_peak(graph, 0.3));
  Control::clear_stop();
  // The plan of the bound's solution, without a search, may already fit.
  if (decision.outcome == Outcome::stopped) {
    EXPECT_TRUE(decision.executions.empty());
  } else {
    EXPECT_LE(lower(graph, decision.executions).peak_bytes, share_of_peak(graph, 0.3));
  }
}

}  // namespace
}  // namespace lowtide::strategy
