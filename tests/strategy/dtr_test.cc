// The online simulation of DTR: the evictions and the estimated costs of each heuristic.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "plan/in_place.h"
#include "plan/lower.h"
#include "strategy/dtr/rerun_cost.h"
#include "strategy/dtr/simulation.h"
#include "support/ask.h"
#include "support/random_graph.h"

namespace lowtide::strategy {
namespace {

using testing::op;
using testing::random_graph;
using testing::resident;
using testing::value;

constexpr dtr::Heuristic kAll[] = {
    dtr::Heuristic::classes, dtr::Heuristic::full, dtr::Heuristic::local, dtr::Heuristic::lru,
    dtr::Heuristic::size,    dtr::Heuristic::msps, dtr::Heuristic::ahead};

/// The last op reads three values, and a fourth value forces the eviction of one of them:
///   0 dear_old (cost 90, 10 bytes), 1 cheap (cost 2, 6 bytes), 2 large (cost 60, 30 bytes),
///   3 big (reads large, 30 bytes), 4 small (reads big, 1 byte), 5 end reads all but big.
Graph crowded() {
  GraphData data;
  data.tensors = {resident("x", 1),  value("dear_old", 10), value("cheap", 6),
                  value("large", 30), value("big", 30),      value("small", 1),
                  value("end", 1)};
  data.ops = {op("dear_old", {0}, {1}, 90), op("cheap", {0}, {2}, 2),   op("large", {0}, {3}, 60),
              op("big", {3}, {4}, 5),       op("small", {4}, {5}, 1),
              op("end", {1, 2, 3, 5}, {6}, 1)};
  data.outputs = {6};
  return Graph(std::move(data));
}

std::vector<OpId> reruns(const std::vector<OpId>& executions) {
  std::set<OpId> seen;
  std::vector<OpId> again;
  for (OpId id : executions) {
    if (!seen.insert(id).second) again.push_back(id);
  }
  return again;
}

std::vector<OpId> reruns_of(dtr::Heuristic heuristic, Bytes limit) {
  const remat::StageGraph graph(crowded());
  const auto executions = dtr::simulate(graph, {heuristic, limit, 1e9, false}, Control());
  return executions ? reruns(*executions) : std::vector<OpId>{};
}

TEST(Dtr, EachHeuristicEvictsWhatItSays) {
  // All together have 1 + 10 + 6 + 30 + 30 bytes, and "big" runs while "large" is held: one of the
  // first two values must be evicted.
  EXPECT_THAT(reruns_of(dtr::Heuristic::local, 72), ::testing::ElementsAre(1));  // 2 / 6 < 90 / 10
  EXPECT_THAT(reruns_of(dtr::Heuristic::classes, 72), ::testing::ElementsAre(1));
  EXPECT_THAT(reruns_of(dtr::Heuristic::full, 72), ::testing::ElementsAre(1));
  EXPECT_THAT(reruns_of(dtr::Heuristic::msps, 72), ::testing::ElementsAre(1));
  EXPECT_THAT(reruns_of(dtr::Heuristic::lru, 72), ::testing::ElementsAre(0));    // the oldest
  EXPECT_THAT(reruns_of(dtr::Heuristic::size, 72), ::testing::ElementsAre(0));   // 10 > 6 bytes
  EXPECT_THAT(reruns_of(dtr::Heuristic::ahead, 72), ::testing::ElementsAre(1));  // read at the end
}

/// Of two equal values, the one made last is read first:
///   0 first, 1 second (10 bytes each), 2 wide (30 bytes), 3 reads second, 4 reads first.
TEST(Dtr, LooksAheadToWhatIsNeededLast) {
  GraphData data;
  data.tensors = {resident("x", 1), value("first", 10), value("second", 10), value("wide", 30),
                  value("soon", 1), value("late", 1)};
  data.ops = {op("first", {0}, {1}, 5), op("second", {0}, {2}, 5), op("wide", {0}, {3}, 5),
              op("soon", {2, 3}, {4}, 5), op("late", {1, 4}, {5}, 5)};
  data.outputs = {5};
  const remat::StageGraph graph(Graph(std::move(data)));
  const auto ahead = dtr::simulate(graph, {dtr::Heuristic::ahead, 42, 1e9, false}, Control());
  ASSERT_TRUE(ahead);
  EXPECT_THAT(reruns(*ahead), ::testing::ElementsAre(0));
}

TEST(Dtr, SaysWhenAnOpDoesNotFit) {
  const remat::StageGraph graph(crowded());
  for (dtr::Heuristic heuristic : kAll) {
    EXPECT_FALSE(dtr::simulate(graph, {heuristic, 60, 1e9, false}, Control()));
    EXPECT_TRUE(dtr::simulate(graph, {heuristic, 61, 1e9, false}, Control()));
  }
}

TEST(Dtr, GivesUpWhenItThrashes) {
  const remat::StageGraph graph(crowded());
  EXPECT_TRUE(dtr::simulate(graph, {dtr::Heuristic::local, 72, 161, false}, Control()));
  EXPECT_FALSE(dtr::simulate(graph, {dtr::Heuristic::local, 72, 160, false}, Control()));
}

TEST(Dtr, StaysWithinItsLimitWithEveryHeuristic) {
  int evicting = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = random_graph(seed, {.ops = 40});
    const remat::StageGraph stages(graph);
    for (dtr::Heuristic heuristic : kAll) {
      for (double share : {0.9, 0.7}) {
        const Bytes limit = testing::share_of_peak(graph, share);
        for (bool drop : {false, true}) {
          const auto executions = dtr::simulate(stages, {heuristic, limit, 1e9, drop}, Control());
          if (!executions) continue;
          evicting += !reruns(*executions).empty();
          ASSERT_LE(with_in_place(graph, lower(graph, *executions)).peak_bytes, limit)
              << "seed " << seed << " heuristic " << static_cast<int>(heuristic);
        }
      }
    }
  }
  EXPECT_GT(evicting, 20);
}

enum class Way { up, down, both };

/// Evicted values connected only through evicted ones, in one direction or both.
std::set<int> evicted_around(const remat::StageGraph& graph, const std::vector<bool>& evicted,
                             int value, Way way) {
  std::set<int> found;
  std::vector<int> todo{value};
  const auto reach = [&](int other) {
    if (evicted[other] && found.insert(other).second) todo.push_back(other);
  };
  while (!todo.empty()) {
    const remat::StageValue& next = graph.value(todo.back());
    todo.pop_back();
    if (way != Way::down) std::ranges::for_each(graph.stage(next.producer).inputs, reach);
    if (way == Way::up) continue;
    for (int reader : next.readers) std::ranges::for_each(graph.stage(reader).outputs, reach);
  }
  return found;
}

double cost_with(const remat::StageGraph& graph, int value, const std::set<int>& others) {
  const auto cost_of = [&](int v) { return graph.stage(graph.value(v).producer).cost; };
  double cost = cost_of(value);
  for (int v : others) cost += cost_of(v);
  return cost;
}

TEST(RerunCost, CountsTheEvictedAroundAValue) {
  std::mt19937 random(3);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const remat::StageGraph graph(random_graph(seed, {.ops = 30}));
    const auto full = dtr::make_rerun_cost(graph, dtr::Neighbourhood::full);
    const auto ancestors = dtr::make_rerun_cost(graph, dtr::Neighbourhood::ancestors);
    std::vector<bool> evicted(graph.num_values());
    for (int change = 0; change < 60; ++change) {
      const int v = static_cast<int>(random() % graph.num_values());
      for (dtr::RerunCost* cost : {full.get(), ancestors.get()}) {
        evicted[v] ? cost->made(v) : cost->evicted(v);
      }
      evicted[v] = !evicted[v];
      for (int u = 0; u < graph.num_values(); ++u) {
        if (evicted[u]) continue;
        const std::set<int> above = evicted_around(graph, evicted, u, Way::up);
        std::set<int> all = evicted_around(graph, evicted, u, Way::down);
        all.insert(above.begin(), above.end());
        ASSERT_DOUBLE_EQ(ancestors->of(u), cost_with(graph, u, above));
        ASSERT_DOUBLE_EQ(full->of(u), cost_with(graph, u, all));
      }
    }
  }
}

TEST(RerunCost, ClassesAreWhatEvictedValuesConnectAsLongAsNothingIsMadeAgain) {
  std::mt19937 random(4);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const remat::StageGraph graph(random_graph(seed, {.ops = 30}));
    const auto classes = dtr::make_rerun_cost(graph, dtr::Neighbourhood::classes);
    std::vector<bool> evicted(graph.num_values());
    for (int change = 0; change < graph.num_values() / 2; ++change) {
      const int v = static_cast<int>(random() % graph.num_values());
      if (evicted[v]) continue;
      classes->evicted(v);
      evicted[v] = true;
      for (int u = 0; u < graph.num_values(); ++u) {
        if (evicted[u]) continue;
        const std::set<int> all = evicted_around(graph, evicted, u, Way::both);
        ASSERT_DOUBLE_EQ(classes->of(u), cost_with(graph, u, all));
      }
    }
  }
}

TEST(RerunCost, AClassStaysWholeWithoutTheCostOfWhatIsMadeAgain) {
  const remat::StageGraph graph(testing::chain_graph(6));  // values 0 .. 5 are the activations
  const auto classes = dtr::make_rerun_cost(graph, dtr::Neighbourhood::classes);
  for (int v : {1, 2, 3}) classes->evicted(v);
  EXPECT_EQ(classes->of(4), 1 + 3);
  classes->made(2);
  EXPECT_EQ(classes->of(4), 1 + 2);  // 1 and 3 are still one class
  EXPECT_EQ(classes->of(2), 1 + 2);
}

}  // namespace
}  // namespace lowtide::strategy
