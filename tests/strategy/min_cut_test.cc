// Minimum cuts and knapsacks against all subsets, on cases small enough to try them all.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <random>

#include "plan/lower.h"
#include "solver/knapsack.h"
#include "solver/max_flow.h"
#include "strategy/checkpointing.h"
#include "strategy/min_cut/saved_values.h"
#include "support/ask.h"
#include "support/random_graph.h"

namespace lowtide::strategy {
namespace {

using testing::random_graph;

constexpr Bytes kNoCut = std::numeric_limits<Bytes>::max();

TEST(MaxFlow, EqualsTheSmallestCut) {
  std::mt19937 random(1);
  constexpr int kNodes = 7;
  for (int round = 0; round < 200; ++round) {
    struct Edge {
      int from, to, capacity;
    };
    std::vector<Edge> edges;
    solver::MaxFlow flow(kNodes);
    for (int e = 0; e < 16; ++e) {
      const Edge edge{static_cast<int>(random() % kNodes), static_cast<int>(random() % kNodes),
                      static_cast<int>(random() % 10)};
      edges.push_back(edge);
      flow.add_edge(edge.from, edge.to, edge.capacity);
    }
    const auto capacity = [&](auto in_sink_side) {
      int sum = 0;
      for (const Edge& e : edges) {
        if (!in_sink_side(e.from) && in_sink_side(e.to)) sum += e.capacity;
      }
      return sum;
    };
    int least = std::numeric_limits<int>::max();
    for (unsigned set = 0; set < 1u << kNodes; ++set) {  // node 0 is the source, 1 the sink
      if (set & 1 || !(set & 2)) continue;
      least = std::min(least, capacity([&](int node) { return set >> node & 1; }));
    }
    ASSERT_EQ(flow.run(0, 1), least);
    const std::vector<bool> side = flow.sink_side(1);
    ASSERT_FALSE(side[0]);
    ASSERT_EQ(capacity([&](int node) { return side[node]; }), least);
  }
}

/// So any of them is a bound, and the last one is the cut.
TEST(MaxFlow, FlowsMoreWithMoreSteps) {
  std::mt19937 random(3);
  constexpr int kNodes = 20;
  int partial = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<std::array<int, 3>> edges(60);
    for (auto& edge : edges) {
      for (int& number : edge) number = static_cast<int>(random() % kNodes);
    }
    const auto flow_within = [&](std::int64_t steps) {
      solver::MaxFlow flow(kNodes);
      for (const auto& [from, to, capacity] : edges) flow.add_edge(from, to, capacity);
      return flow.run(0, 1, steps);
    };
    const std::int64_t whole = flow_within(std::numeric_limits<std::int64_t>::max());
    std::int64_t before = flow_within(0);
    ASSERT_EQ(before, 0);
    for (std::int64_t steps = 1; steps < 2000; steps += 13) {
      const std::int64_t flow = flow_within(steps);
      ASSERT_GE(flow, before);
      ASSERT_LE(flow, whole);
      partial += flow > 0 && flow < whole;
      before = flow;
    }
    ASSERT_EQ(before, whole);
  }
  EXPECT_GT(partial, 50);
}

TEST(Knapsack, ChoosesWhatIsWorthMostForEveryCapacity) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    std::vector<solver::Knapsack::Item> items(1 + random() % 8);
    for (auto& item : items) {
      item = {static_cast<double>(random() % 20), static_cast<Bytes>(random() % 10)};
    }
    const solver::Knapsack knapsack(items, 1000);  // slots of one byte
    for (int slots = 0; slots <= knapsack.slots(); ++slots) {
      const auto sum = [&](auto in_set) {
        solver::Knapsack::Item total;
        for (std::size_t i = 0; i < items.size(); ++i) {
          if (!in_set(i)) continue;
          total.worth += items[i].worth;
          total.bytes += items[i].bytes;
        }
        return total;
      };
      double most = 0;
      for (unsigned set = 0; set < 1u << items.size(); ++set) {
        const auto total = sum([&](std::size_t i) { return set >> i & 1; });
        if (total.bytes <= slots) most = std::max(most, total.worth);
      }
      const std::vector<bool> chosen = knapsack.chosen(slots);
      const auto total = sum([&](std::size_t i) { return chosen[i]; });
      ASSERT_LE(total.bytes, slots);
      ASSERT_EQ(total.worth, most);
    }
  }
}

/// Bytes of a set of saved values; kNoCut when the backward pass cannot be run from it.
Bytes bytes_if_enough(const remat::StageGraph& graph, int end, const std::vector<bool>& once,
                      const std::vector<bool>& kept, const std::vector<bool>& saved) {
  std::vector<bool> there(graph.num_values());
  Bytes bytes = 0;
  for (int i = 0; i < end; ++i) {
    const auto& inputs = graph.stage(i).inputs;
    const bool again = !once[i] && std::ranges::all_of(inputs, [&](int v) { return there[v]; });
    for (int v : graph.stage(i).outputs) {
      there[v] = saved[v] || kept[v] || again;
      if (saved[v] && !kept[v]) bytes += graph.value(v).bytes;
      if (!there[v] && graph.value(v).last_reader() >= end) return kNoCut;
    }
  }
  return bytes;
}

TEST(FewestSaved, IsTheSmallestOfAllSets) {
  std::mt19937 random(3);
  int graphs = 0;
  for (std::uint64_t seed = 0; graphs < 120; ++seed) {
    const remat::StageGraph graph(random_graph(seed, {.ops = 14}));
    const int end = forward_end(graph);
    const auto none = std::vector<bool>(graph.num_values());
    const std::vector<bool> kept = kept_in_any_case(graph, end, none);
    std::vector<int> open;
    for (int v = 0; v < graph.num_values(); ++v) {
      if (!kept[v] && graph.value(v).producer < end) open.push_back(v);
    }
    if (open.size() < 4 || open.size() > 11) continue;
    ++graphs;
    std::vector<bool> once(end);
    for (int i = 0; i < end; ++i) once[i] = random() % 4 == 0;
    Bytes least = kNoCut;
    for (unsigned set = 0; set < 1u << open.size(); ++set) {
      std::vector<bool> saved = none;
      for (std::size_t k = 0; k < open.size(); ++k) saved[open[k]] = set >> k & 1;
      least = std::min(least, bytes_if_enough(graph, end, once, kept, saved));
    }
    const std::vector<bool> chosen = min_cut::fewest_saved(graph, end, once, kept);
    ASSERT_EQ(bytes_if_enough(graph, end, once, kept, chosen), least) << "seed " << seed;
  }
}

TEST(MinCut, RunsCheapOpsAgainBeforeDearOnes) {
  GraphData data = testing::chain_graph(40).data();
  for (std::size_t i = 0; i < data.ops.size(); ++i) {
    if (data.ops[i].phase == Phase::forward && i % 2 == 0) data.ops[i].cost = 50;
  }
  const Graph graph(std::move(data));
  const double keep_all = keep_all_reference(graph).cost;
  for (double share : {0.9, 0.75, 0.6}) {
    const Decision decision = testing::ask("min-cut", graph, testing::share_of_peak(graph, share));
    ASSERT_FALSE(decision.executions.empty()) << decision.message;
    const double extra = lower(graph, decision.executions).cost - keep_all;
    EXPECT_GT(extra, 0) << share;
    EXPECT_LT(extra, 40) << share;  // less than one expensive op
  }
}

}  // namespace
}  // namespace lowtide::strategy
