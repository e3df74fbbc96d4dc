#include "strategy/checkpointing.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "plan/lower.h"
#include "strategy/checkpoints/binomial.h"
#include "support/ask.h"
#include "support/random_graph.h"

namespace lowtide::strategy {
namespace {

using testing::ask;
using testing::chain_graph;

/// The forward op i makes a_i; the backward op i reads only a_{i-1} and the gradient after it. So
/// nothing reads the output of the last forward op, and strategies leave it out.
Graph small_chain(int layers) {
  GraphData data = chain_graph(layers).data();
  for (Op& op : data.ops) {
    if (op.phase == Phase::backward) op.inputs.erase(op.inputs.begin() + 1);
  }
  return Graph(std::move(data));
}

std::int64_t forward_runs(const Graph& graph, const std::vector<OpId>& executions) {
  return std::ranges::count_if(executions, [&](OpId id) {
    return graph.op(id).phase == Phase::forward;
  });
}

TEST(Binomial, IsTheBestOfAllSchedules) {
  std::map<std::pair<int, int>, std::int64_t> least;
  for (int length = 1; length <= 40; ++length) {
    for (int slots = 1; slots <= 8; ++slots) {
      std::int64_t& best = least[{length, slots}];
      best = std::int64_t{length} * (length - 1) / 2;
      for (int k = 1; slots > 1 && k < length; ++k) {
        best = std::min(best, k + least[{length - k, slots - 1}] + least[{k, slots}]);
      }
      ASSERT_EQ(checkpoints::binomial_steps(length, slots), best)
          << length << " states, " << slots << " slots";
      if (length < 2 || slots < 2) continue;
      const int k = checkpoints::binomial_split(length, slots);
      ASSERT_GE(k, 1);
      ASSERT_LT(k, length);
      const auto split = k + least[{length - k, slots - 1}] + least[{k, slots}];
      ASSERT_EQ(split, best) << "split of " << length << " states, " << slots << " slots";
    }
  }
}

TEST(Revolve, RunsAUniformChainAsOftenAsTheBinomialsSay) {
  constexpr int kLayers = 60;
  const Graph graph = small_chain(kLayers);
  const Bytes layer = graph.tensor(0).bytes;
  int plans = 0;
  for (double share : {0.9, 0.6, 0.4, 0.3, 0.2, 0.15, 0.12, 0.1}) {
    const Bytes budget = testing::share_of_peak(graph, share);
    const Decision decision = ask("revolve", graph, budget);
    if (decision.executions.empty()) continue;
    ++plans;
    const Plan plan = lower(graph, decision.executions);
    const std::int64_t runs = forward_runs(graph, decision.executions);
    int slots = 1;  // the input is stored for free; the last state costs one run
    while (slots < kLayers && checkpoints::binomial_steps(kLayers - 1, slots) + 1 != runs) ++slots;
    ASSERT_LT(slots, kLayers) << runs << " forward runs are those of no number of slots";
    // In addition to the stored states: input, current state, its successor, two gradients.
    EXPECT_LE(plan.peak_bytes, (slots - 1 + 5) * layer) << "budget " << share;
  }
  EXPECT_GE(plans, 6);
}

TEST(ChenSqrt, TakesTwoSquareRootsOfMemoryForOneForwardPass) {
  for (int layers : {25, 100, 400}) {
    const Graph graph = chain_graph(layers);
    const Bytes layer = graph.tensor(0).bytes;
    const Decision smallest = ask("chen-sqrt", graph, 0);
    ASSERT_TRUE(smallest.smallest_peak);
    const Decision decision = ask("chen-sqrt", graph, *smallest.smallest_peak);
    const double in_layers = static_cast<double>(*smallest.smallest_peak) / layer;
    EXPECT_LE(in_layers, 2 * std::sqrt(layers) + 4) << layers << " layers";
    EXPECT_LE(forward_runs(graph, decision.executions), 2 * layers);
  }
}

TEST(ChenGreedy, NeverNeedsMoreThanChenSqrtOnAUniformChain) {
  const Graph graph = chain_graph(100);
  EXPECT_LE(*ask("chen-greedy", graph, 0).smallest_peak, *ask("chen-sqrt", graph, 0).smallest_peak);
}

TEST(Segments, RunsEachForwardOpAtMostTwiceAndNotTheLastSegment) {
  const Graph graph = chain_graph(40);
  for (int segments : {1, 2, 4, 8}) {
    const GivenOptions options{{"segments", static_cast<double>(segments)}};
    const Bytes least = *ask("segments", graph, 0, options).smallest_peak;
    const Decision decision = ask("segments", graph, least, options);
    // The values that enter a segment are kept, so its last value need not be made again.
    const int again = 40 - 40 / segments - (segments - 1);
    EXPECT_EQ(forward_runs(graph, decision.executions), 40 + again) << segments << " segments";
  }
}

TEST(Segments, TriesAllCountsAndTakesTheCheapestThatFits) {
  const Graph graph = chain_graph(40);
  const Bytes budget = testing::share_of_peak(graph, 0.5);
  const double chosen = lower(graph, ask("segments", graph, budget).executions).cost;
  for (int segments = 1; segments <= 8; ++segments) {
    const GivenOptions options{{"segments", static_cast<double>(segments)}};
    const Decision decision = ask("segments", graph, budget, options);
    if (decision.executions.empty()) continue;
    EXPECT_LE(chosen, lower(graph, decision.executions).cost) << segments << " segments";
  }
}

TEST(Selective, RunsOnlyCheapOpsAgain) {
  GraphData data = chain_graph(40).data();
  for (std::size_t i = 0; i < data.ops.size(); ++i) {
    if (data.ops[i].phase == Phase::forward && i % 2 == 0) data.ops[i].cost = 50;
  }
  const Graph graph(std::move(data));
  const Decision decision = ask("selective", graph, testing::share_of_peak(graph, 0.7));
  ASSERT_FALSE(decision.executions.empty()) << decision.message;
  std::map<OpId, int> runs;
  for (OpId id : decision.executions) ++runs[id];
  for (const auto& [id, count] : runs) {
    if (graph.op(id).cost > 2) {
      EXPECT_EQ(count, 1) << graph.op(id).name;
    }
  }
}

/// The forward ops that run more than once, in a plan within the share of the peak.
std::vector<OpId> run_again(const Graph& graph, const char* rule, double share) {
  const Decision decision =
      ask("greedy", graph, testing::share_of_peak(graph, share), {{"rule", rule}});
  EXPECT_FALSE(decision.executions.empty()) << decision.message;
  std::map<OpId, int> runs;
  for (OpId id : decision.executions) ++runs[id];
  std::vector<OpId> again;
  for (const auto& [id, count] : runs) {
    if (count > 1) again.push_back(id);
  }
  return again;
}

TEST(Greedy, RunsAgainThoseThatFreeMostBytesPerCostFirst) {
  GraphData data = chain_graph(40).data();
  for (int i = 0; i < 40; ++i) data.ops[i].cost = i % 2 == 0 ? 50 : 1;
  const Graph graph(std::move(data));
  for (OpId id : run_again(graph, "benefit", 0.7)) EXPECT_EQ(id % 2, 1) << graph.op(id).name;
}

TEST(Greedy, RunsAgainThoseThatLieIdleUnderMostPressureFirst) {
  const Graph graph = chain_graph(40);
  const std::vector<OpId> again = run_again(graph, "pressure", 0.7);
  ASSERT_FALSE(again.empty());
  // In a chain the first values lie idle longest.
  for (std::size_t i = 0; i < again.size(); ++i) EXPECT_EQ(again[i], static_cast<OpId>(i));
}

TEST(Greedy, RunsAgainThoseOffTheLongestPathFirst) {
  // Ten values on the long path, each with a cheap one beside it; all are read again at the end.
  GraphData data;
  data.tensors.push_back(testing::resident("x", 8));
  std::vector<TensorId> made;
  for (int i = 0; i < 10; ++i) {
    const TensorId before = i == 0 ? 0 : made[made.size() - 2];
    for (const bool is_long : {true, false}) {
      made.push_back(static_cast<TensorId>(data.tensors.size()));
      data.tensors.push_back(testing::value(fmt::format("v{}", made.back()), 8));
      data.ops.push_back(testing::op(fmt::format("f{}", made.back()), {before}, {made.back()},
                                     is_long ? 10 : 1));
    }
  }
  TensorId last = made[made.size() - 2];
  for (auto v = made.rbegin(); v != made.rend(); ++v) {
    const auto next = static_cast<TensorId>(data.tensors.size());
    data.tensors.push_back(testing::value(fmt::format("g{}", *v), 8));
    data.ops.push_back(testing::op(fmt::format("b{}", *v), {*v, last}, {next}));
    data.ops.back().phase = Phase::backward;
    last = next;
  }
  data.outputs = {last};
  const Graph graph(std::move(data));
  const std::vector<OpId> again = run_again(graph, "slack", 0.8);
  ASSERT_FALSE(again.empty());
  for (OpId id : again) EXPECT_EQ(graph.op(id).cost, 1) << graph.op(id).name;
}

TEST(ArticulationCuts, AreWhereOneValueCrosses) {
  const remat::StageGraph chain(chain_graph(5));
  std::vector<int> stages;
  for (const Cut& cut : articulation_cuts(chain, forward_end(chain))) stages.push_back(cut.stage);
  EXPECT_EQ(forward_end(chain), 5);
  EXPECT_THAT(stages, ::testing::ElementsAre(1, 2, 3, 4));

  // A value that is read at the very end of the forward pass leaves no other single crossing.
  GraphData data = chain_graph(5).data();
  data.ops[4].inputs.push_back(1);
  const Graph skip(std::move(data));
  const remat::StageGraph skipped(skip);
  stages.clear();
  for (const Cut& cut : articulation_cuts(skipped, 5)) stages.push_back(cut.stage);
  EXPECT_THAT(stages, ::testing::ElementsAre(1));
}

TEST(ForwardEnd, IsWhereKeepAllPeaksInAGraphWithoutPhases) {
  GraphData data = chain_graph(10).data();
  for (Op& op : data.ops) op.phase = Phase::forward;
  const Graph graph(std::move(data));
  EXPECT_NEAR(forward_end(remat::StageGraph(graph)), 10, 1);
}

}  // namespace
}  // namespace lowtide::strategy
