// The dynamic program of `rotor` against all persistent schedules of small chains, given as
// executions and measured by replay.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "plan/lower.h"
#include "strategy/chain/block_chain.h"
#include "support/ask.h"
#include "support/random_graph.h"

namespace lowtide::strategy {
namespace {

using testing::ask;
using testing::chain_graph;

using Schedule = std::vector<OpId>;

/// A chain of layers of different bytes, workspaces and costs. The first has no backward op, so
/// that every backward op reads two activations, and each layer is a block.
Graph uneven_chain(int layers, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  GraphData data = chain_graph(layers).data();
  data.ops.pop_back();
  data.tensors.pop_back();
  data.outputs = {static_cast<TensorId>(data.tensors.size()) - 1};
  for (Tensor& tensor : data.tensors) tensor.bytes = 1 + static_cast<Bytes>(random() % 20);
  for (Op& op : data.ops) {
    op.cost = 1 + static_cast<double>(random() % 9);
    op.workspace_bytes = static_cast<Bytes>(random() % 8);
  }
  return Graph(std::move(data));
}

Schedule joined(Schedule a, const Schedule& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// All schedules through layers s .. t (from 1) and back when the activation before s is held, and
/// that of t too if `next_held`.
std::vector<Schedule> schedules(int layers, int s, int t, bool next_held) {
  const auto forward = [](int layer) { return layer - 1; };
  const auto backward = [&](int layer) { return 2 * layers - layer; };
  if (t == 1) return {{}};
  if (s == t && next_held) return {{backward(s)}};
  if (s == t) return {{forward(s), backward(s)}};
  std::vector<Schedule> all;
  for (const Schedule& rest : schedules(layers, s + 1, t, next_held)) {
    Schedule one = joined({forward(s)}, rest);
    if (s > 1) one.push_back(backward(s));
    all.push_back(std::move(one));
  }
  for (int stored = s + 1; stored <= t; ++stored) {
    Schedule way;
    for (int k = s; k < stored; ++k) way.push_back(forward(k));
    std::vector<Schedule> behind = schedules(layers, s, stored - 1, false);
    for (Schedule& one : schedules(layers, s, stored - 1, true)) behind.push_back(std::move(one));
    for (const Schedule& ahead : schedules(layers, stored, t, next_held)) {
      for (const Schedule& after : behind) all.push_back(joined(joined(way, ahead), after));
    }
  }
  return all;
}

TEST(Rotor, IsTheBestOfAllPersistentSchedules) {
  int answers = 0, infeasible = 0;
  for (int layers = 3; layers <= 6; ++layers) {
    const std::vector<Schedule> all = schedules(layers, 1, layers, false);
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const Graph graph = uneven_chain(layers, seed);
      std::vector<Plan> plans;
      std::set<Bytes> peaks;
      for (const Schedule& schedule : all) {
        plans.push_back(lower(graph, schedule));
        peaks.insert(plans.back().peak_bytes);
      }
      for (Bytes budget : peaks) {
        double best = std::numeric_limits<double>::infinity();
        for (const Plan& plan : plans) {
          if (plan.peak_bytes <= budget) best = std::min(best, plan.cost);
        }
        const Decision decision = ask("rotor", graph, budget);  // slots of one byte
        ASSERT_FALSE(decision.executions.empty()) << decision.message;
        ASSERT_EQ(lower(graph, decision.executions).cost, best)
            << layers << " layers, seed " << seed << ", budget " << budget;
        ++answers;
      }
      infeasible += ask("rotor", graph, *peaks.begin() - 1).outcome == Outcome::infeasible;
    }
  }
  EXPECT_GT(answers, 200);
  EXPECT_EQ(infeasible, 4 * 12);
}

TEST(Rotor, NeverCostsMoreThanRevolveOnAChain) {
  const Graph graph = chain_graph(40);
  int compared = 0;
  for (double share : {0.8, 0.5, 0.3, 0.2}) {
    const Bytes budget = testing::share_of_peak(graph, share);
    const Decision revolve = ask("revolve", graph, budget);
    if (revolve.executions.empty()) continue;
    ++compared;
    const Decision rotor = ask("rotor", graph, budget);
    EXPECT_LE(lower(graph, rotor.executions).cost, lower(graph, revolve.executions).cost) << share;
  }
  EXPECT_GE(compared, 3);
}

TEST(Rotor, CoarserSlotsStillKeepTheBudget) {
  const Graph graph = chain_graph(60);
  const Bytes budget = testing::share_of_peak(graph, 0.4);
  for (double slots : {40, 100, 1000}) {
    const Decision decision = ask("rotor", graph, budget, {{"slots", slots}, {"blocks", 30}});
    ASSERT_FALSE(decision.executions.empty()) << slots << " slots: " << decision.message;
    EXPECT_LE(lower(graph, decision.executions).peak_bytes, budget);
  }
}

TEST(BlockChain, GivesEachLayerOfAChainABlock) {
  const Graph graph = chain_graph(5, 8);
  const CutGraph cut = cut_graph(graph);
  const chain::BlockChain chain(cut, 100);
  ASSERT_EQ(chain.num_blocks(), 5);
  EXPECT_EQ(chain.fixed_bytes(), 8);  // the input
  // Only the gradient of the first layer reads the second state.
  EXPECT_EQ(chain.stages(0), (std::vector<int>{0}));
  EXPECT_EQ(chain.stages(1), (std::vector<int>{1, 8, 9}));
  EXPECT_EQ(chain.stages(4), (std::vector<int>{4, 5}));
  for (int j = 0; j < 5; ++j) {
    EXPECT_EQ(chain.state_bytes(j, 0), j == 0 ? 0 : 8);
    EXPECT_EQ(chain.gradient_bytes(j), j == 4 ? 0 : 8);
  }
}

}  // namespace
}  // namespace lowtide::strategy
