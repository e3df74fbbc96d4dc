#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "graph/boundary.h"
#include "graph/permuted.h"
#include "ordering/list_orders.h"
#include "ordering/lower_memory_order.h"
#include "ordering/schedule.h"
#include "ordering/unrolled.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "plan/verify.h"
#include "remat/event_plan.h"
#include "support/ask.h"
#include "support/random_graph.h"
#include "support/sweep.h"
#include "support/two_branches.h"

namespace lowtide::ordering {
namespace {

using testing::ask;
using testing::random_graph;
using testing::share_of_peak;
using testing::short_search;
using testing::two_branches;

/// The contents that each op reads, by names that depend only on the sequence of reads, writes and
/// draws: the simplest meaning of a sequence of executions.
class Meaning {
 public:
  explicit Meaning(const Graph& graph) : graph_(graph), content_(graph.num_tensors()) {
    std::iota(content_.begin(), content_.end(), std::size_t{1});
  }

  /// The results of every op's first run, and then the final contents of residents. A rerun must
  /// compute the same.
  std::map<OpId, std::size_t> of(const std::vector<OpId>& executions) {
    for (OpId id : executions) run(id);
    for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
      if (graph_.is_resident(id)) computed_[graph_.num_ops() + id] = content_[graph_.storage(id)];
    }
    return std::move(computed_);
  }

 private:
  void run(OpId id) {
    const Op& op = graph_.op(id);
    for (TensorId in : op.inputs) {
      if (graph_.tensor(in).alias_of != kNone && graph_.producer(in) != kNone) view(in);
    }
    const bool is_first = !computed_.contains(id);
    std::size_t result = mixed(17, static_cast<std::size_t>(id));
    for (int at = 0; at < static_cast<int>(op.inputs.size()); ++at) {
      // A write changes the contents of the written storage, not of the outputs.
      if (std::ranges::count(op.mutates, at)) continue;
      result = mixed(result, content_[graph_.storage(op.inputs[at])]);
    }
    if (op.random && is_first) draw_[id] = ++draws_;
    if (op.random) result = mixed(result, draw_[id]);
    for (TensorId out : op.outputs) content_[out] = mixed(result, static_cast<std::size_t>(out));
    if (is_first) {
      computed_[id] = result;
      for (int at : op.mutates) {
        std::size_t& written = content_[graph_.storage(op.inputs[at])];
        written = mixed(result, written);
      }
    }
    EXPECT_EQ(computed_[id], result) << "op " << id << " works on something else";
  }

  void view(TensorId id) { content_[id] = content_[graph_.storage(id)]; }

  static std::size_t mixed(std::size_t a, std::size_t b) {
    return (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdu;
  }

  const Graph& graph_;
  std::vector<std::size_t> content_;  // per storage
  std::map<OpId, std::size_t> draw_;
  std::size_t draws_ = 0;
  std::map<OpId, std::size_t> computed_;
};

/// Moves stages at random, as far as they may go.
void shuffle(Schedule& schedule, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int step = 0; step < 200; ++step) {
    const auto from = static_cast<int>(random() % static_cast<std::uint64_t>(schedule.size()));
    const auto [first, last] = schedule.range_of(from);
    const auto width = static_cast<std::uint64_t>(last - first + 1);
    schedule.move(from, first + static_cast<int>(random() % width));
  }
}

TEST(Permuted, MovesOpsAndKeepsTensors) {
  const Graph graph = testing::chain_graph(2, 100);
  std::vector<OpId> order(static_cast<std::size_t>(graph.num_ops()));
  std::iota(order.begin(), order.end(), 0);
  EXPECT_EQ(permuted(graph, order).op(1).name, graph.op(1).name);
  std::swap(order[0], order[1]);
  EXPECT_ANY_THROW(permuted(graph, order));  // the second reads an output of the first
}

TEST(Schedule, AnyOrderComputesTheSame) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph = random_graph(seed, {.ops = 10 + static_cast<int>(seed % 40)});
    const remat::StageGraph stages(graph);
    Schedule schedule(stages, Precedence(graph, stages), 0);
    shuffle(schedule, seed);
    EXPECT_EQ(Meaning(graph).of(ops_of(stages, schedule.order())),
              Meaning(graph).of(remat::stage_order(stages)));
  }
}

TEST(Schedule, PeakIsThatOfTheLoweredPlan) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph = random_graph(seed, {.ops = 10 + static_cast<int>(seed % 40)});
    const remat::StageGraph stages(graph);
    const Precedence precedence(graph, stages);
    Schedule schedule(stages, precedence, 0);
    shuffle(schedule, seed);
    const Plan plan = with_in_place(graph, lower(graph, ops_of(stages, schedule.order())));
    EXPECT_EQ(schedule.peak(), plan.peak_bytes);
    EXPECT_FALSE(verify(graph, plan));
    while (schedule.order() != Schedule(stages, precedence, 0).order()) {
      const auto unsorted = std::ranges::is_sorted_until(schedule.order());
      const auto from = static_cast<int>(unsorted - schedule.order().begin());
      schedule.move(from, static_cast<int>(std::ranges::upper_bound(schedule.order().begin(),
                                                                    unsorted, *unsorted) -
                                           schedule.order().begin()));
    }
    EXPECT_EQ(schedule.excess(), Schedule(stages, precedence, 0).excess());
  }
}

TEST(Unrolled, KeepsMemoryAndMeaningOfReruns) {
  for (std::uint64_t seed = 0; seed < testing::sweep(100u, 20u); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph = random_graph(seed, {.ops = 10 + static_cast<int>(seed % 40)});
    const remat::StageGraph stages(graph);
    const Bytes budget = share_of_peak(graph, 0.7);
    const strategy::Decision decision =
        ask("search", graph, budget, {{"moves", 5}, {"bound", 0.001}, {"order", 0}});
    if (decision.executions.empty()) continue;
    const Unrolled sequence = unrolled(stages, Precedence(graph, stages), decision.executions);
    Schedule schedule(sequence.graph, sequence.precedence, budget);
    EXPECT_EQ(schedule.peak(), with_in_place(graph, lower(graph, decision.executions)).peak_bytes);
    shuffle(schedule, seed);
    const std::vector<OpId> moved = ops_of(sequence.graph, schedule.order());
    EXPECT_EQ(Meaning(graph).of(moved), Meaning(graph).of(decision.executions));
    EXPECT_FALSE(verify(graph, with_in_place(graph, lower(graph, moved))));
  }
}

/// Two layers: the updates come last, the first layer's first, as PyTorch's optimizers go.
Graph step_with_updates_last() {
  using testing::op, testing::resident, testing::value;
  GraphData data;
  data.name = "updates last";
  data.tensors = {resident("w1", 10),  resident("w2", 10),    value("h1", 100),
                  value("h2", 100),    value("grad h1", 100), value("grad w2", 10),
                  value("grad w1", 10)};
  data.ops = {op("layer 1", {0}, {2}),
              op("layer 2", {2, 1}, {3}),
              op("backward 2", {3, 1, 2}, {4, 5}),
              op("backward 1", {4, 0}, {6}),
              op("update 1", {0, 6}, {}),
              op("update 2", {1, 5}, {})};
  for (std::size_t update : {4, 5}) {
    data.ops[update].mutates = {0};
    data.ops[update].recomputable = false;
  }
  return Graph(std::move(data));
}

/// A step in two halves. The first one draws and counts, which its result does not need, and makes
/// a value from which the second one makes a gradient, whatever the caller's gradient is.
Graph halves_with_effects() {
  using testing::op, testing::resident, testing::value;
  GraphData data;
  data.name = "halves";
  data.tensors = {resident("w", 10),          resident("counter", 8), value("saved", 10),
                  value("noise", 10),         value("result", 0),     value("given gradient", 0),
                  value("gradient of w", 10), value("more noise", 10)};
  data.ops = {op("save", {0}, {2}),
              op("draw", {}, {3}),
              op("count", {1}, {}),
              op("result", {0}, {4}),
              op("boundary", {4}, {5}, 0),
              op("gradient", {2}, {6}),
              op("update", {0, 6}, {}),
              op("draw again", {}, {7}),
              op("use", {3, 5, 7}, {})};
  for (std::size_t writer : {2, 6}) data.ops[writer].mutates = {0};
  for (std::size_t drawer : {1, 7}) data.ops[drawer].random = true;
  for (std::size_t once : {2, 4, 6, 8}) data.ops[once].recomputable = false;
  data.ops[4].type = kBoundary;
  return Graph(std::move(data));
}

TEST(Precedence, KeepsEffectsOnTheirSideOfTheBoundary) {
  const Graph graph = halves_with_effects();
  const remat::StageGraph stages(graph);
  const Precedence precedence(graph, stages);
  EXPECT_EQ(precedence.all_before(4),
            (std::vector<bool>{false, true, true, true, false, false, false, false, false}));
  EXPECT_EQ(precedence.all_after(4),
            (std::vector<bool>{false, false, false, false, false, false, true, true, true}));
}

// Also of an op that writes the resident tensor itself.
TEST(Precedence, OverwritersBeginWhereAStageMayRunAgainForTheLastTime) {
  int overwritten = 0;
  for (std::uint64_t seed = 0; seed < testing::sweep(1000u, 200u); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph(seed, {.ops = 10 + static_cast<int>(seed % 40)});
    const remat::StageGraph stages(graph);
    const Precedence precedence(graph, stages);
    for (int i = 0; i < stages.end(); ++i) {
      if (!graph.op(stages.stage(i).op).recomputable) continue;
      const std::vector<int>& overwriters = precedence.overwriters(i);
      const int first = overwriters.empty() ? stages.end() : std::ranges::min(overwriters);
      EXPECT_EQ(stages.stage(i).latest, first) << "stage " << i;
      overwritten += first != stages.end();
    }
  }
  EXPECT_GT(overwritten, 20);
}

TEST(EarlySinks, PutAnUpdateBehindItsGradient) {
  const Graph graph = step_with_updates_last();
  const remat::StageGraph stages(graph);
  const Precedence precedence(graph, stages);
  const std::vector<int> given = Schedule(stages, precedence, 0).order();
  EXPECT_EQ(with_early_sinks(stages, precedence, given), (std::vector<int>{0, 1, 2, 5, 3, 4}));
}

// With values that die earlier, no moment has more bytes in use.
TEST(EarlySinks, NeedNoMoreMemoryAndComputeTheSame) {
  int others = 0;
  for (std::uint64_t seed = 0; seed < testing::sweep(400u, 100u); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph(seed, {.ops = 10 + static_cast<int>(seed % 40)});
    const remat::StageGraph stages(graph);
    const Precedence precedence(graph, stages);
    Schedule given(stages, precedence, 0);
    shuffle(given, seed);
    const Schedule early(stages, precedence, 0,
                         with_early_sinks(stages, precedence, given.order()));
    others += early.order() != given.order();
    EXPECT_LE(early.peak(), given.peak());
    EXPECT_EQ(Meaning(graph).of(ops_of(stages, early.order())),
              Meaning(graph).of(ops_of(stages, given.order())));
  }
  EXPECT_GT(others, 2);
}

TEST(LowerMemoryOrder, TakesBranchesOneAfterTheOther) {
  const Graph graph = two_branches();
  const remat::StageGraph stages(graph);
  const auto order = lower_memory_order(graph, stages, 102, {.moves = 10'000}, Control());
  ASSERT_TRUE(order);
  EXPECT_EQ(remat::keep_all_peak(remat::StageGraph(permuted(graph, *order))), 102);
}

TEST(LowerMemoryOrder, SaysNothingWhenThereIsNoOther) {
  const Graph graph = testing::chain_graph(5, 100);
  EXPECT_FALSE(
      lower_memory_order(graph, remat::StageGraph(graph), 300, {.moves = 10'000}, Control()));
}

TEST(Search, NeedsNoRerunsWhereAnotherOrderFits) {
  const Graph graph = two_branches();
  const strategy::Decision decision = ask("search", graph, 102, short_search("search", 5));
  const Plan plan = with_in_place(graph, lower(graph, decision.executions));
  EXPECT_EQ(plan.cost, 5);
  EXPECT_LE(plan.peak_bytes, 102);
  EXPECT_EQ(decision.lower_bound, 5);
}

TEST(Search, ComputesTheSameInAnotherOrder) {
  const std::uint64_t step = 60 / testing::sweep(60u, 10u);
  for (std::uint64_t seed = 0; seed < 60; seed += step) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph = random_graph(seed, {.ops = 20 + static_cast<int>(seed)});
    const strategy::Decision decision =
        ask("search", graph, share_of_peak(graph, 0.7), short_search("search", 5));
    if (decision.executions.empty()) continue;
    EXPECT_EQ(Meaning(graph).of(decision.executions),
              Meaning(graph).of(remat::stage_order(remat::StageGraph(graph))));
  }
}

/// Reruns of views are not part of the cost of the search.
TEST(Search, SaysOptimalOnlyOfWhatThePlanCosts) {
  int optimal = 0;
  for (std::uint64_t seed = 0; seed < testing::sweep(60u, 20u); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    GraphData data = random_graph(seed, {.ops = 15}).data();
    const Graph plain(data);
    for (OpId id = 0; id < plain.num_ops(); ++id) {
      if (plain.is_view_op(id)) data.ops[id].cost = 2;
    }
    const Graph graph(std::move(data));
    const strategy::Decision decision =
        ask("search", graph, share_of_peak(graph, 0.8), short_search("search", 5));
    if (decision.executions.empty()) continue;
    const double cost = lower(graph, decision.executions).cost;
    EXPECT_LE(*decision.lower_bound, cost * (1 + 1e-9));
    if (decision.outcome != strategy::Outcome::optimal) continue;
    EXPECT_NEAR(*decision.lower_bound, cost, 1e-6 * cost);
    ++optimal;
  }
  EXPECT_GT(optimal, 5);
}

}  // namespace
}  // namespace lowtide::ordering
