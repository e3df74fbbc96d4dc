#include "report/absence.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/in_place.h"
#include "plan/replay.h"
#include "report/samples.h"

namespace lowtide::testing {
namespace {

TEST(Absence, SaysWhatHoldingWouldTakeAndWhereThereIsNoRoom) {
  const Graph graph = three_ops();
  const Plan plan = with_recomputation(graph);
  const auto away = report::absences(graph, plan);
  ASSERT_TRUE(away[0]);
  EXPECT_EQ(away[0]->value, 1);
  EXPECT_EQ(away[0]->bytes, 1000);
  EXPECT_EQ(away[0]->last_used_in, 1);
  EXPECT_EQ(away[0]->back_for, 2);
  // Only w and b are in memory in between.
  EXPECT_EQ(away[0]->room, 1500 - (100 + 200));
  EXPECT_FALSE(away[1]);
  EXPECT_FALSE(away[2]);
}

/// Whether the action ends the storage's life.
bool ends(const Graph& graph, const Action& action, TensorId storage) {
  if (action.verb == Verb::free) return graph.storage(action.index) == storage;
  const Op& op = graph.op(action.index);
  return std::ranges::any_of(op.inplace, [&](const InPlace& pair) {
    return std::ranges::count(action.in_place, pair.output) &&
           graph.storage(op.inputs[pair.input]) == storage;
  });
}

bool makes(const Graph& graph, const Action& action, TensorId storage) {
  return action.verb == Verb::run && std::ranges::count(graph.op(action.index).outputs, storage);
}

bool reads(const Graph& graph, const Action& action, TensorId storage) {
  if (action.verb != Verb::run || graph.is_view_op(action.index)) return false;
  return std::ranges::any_of(graph.op(action.index).inputs,
                             [&](TensorId in) { return graph.storage(in) == storage; });
}

/// The most bytes beyond the free memory, over all absences of the storage; by checking every pair
/// of an end and a making, and every action between.
std::optional<Bytes> most_excess(const Graph& graph, const Plan& plan, const Replay& replayed,
                                 TensorId storage) {
  std::optional<Bytes> most;
  const std::vector<Action>& actions = plan.actions;
  for (std::size_t begin = 0; begin < actions.size(); ++begin) {
    if (!ends(graph, actions[begin], storage)) continue;
    std::size_t end = begin + 1;
    while (end < actions.size() && !makes(graph, actions[end], storage)) ++end;
    std::size_t use = end + 1;
    while (use < actions.size() && !reads(graph, actions[use], storage) &&
           !ends(graph, actions[use], storage)) {
      ++use;
    }
    if (use >= actions.size() || !reads(graph, actions[use], storage)) continue;
    const auto first = replayed.memory.begin();
    const Bytes in_use = *std::max_element(first + static_cast<std::ptrdiff_t>(begin),
                                           first + static_cast<std::ptrdiff_t>(end));
    const Bytes excess = graph.tensor(storage).bytes - (*plan.budget_bytes - in_use);
    most = std::max(most.value_or(excess), excess);
  }
  return most;
}

TEST(Absence, AgreesWithReplayOnRandomPlans) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph(seed);
    Plan plan = with_in_place(graph, lower(graph, random_executions(graph, seed)));
    plan.budget_bytes = plan.peak_bytes + 100;
    const Replay replayed = replay(graph, plan);
    const auto away = report::absences(graph, plan);
    for (OpId id = 0; id < graph.num_ops(); ++id) {
      std::optional<Bytes> expected;
      for (TensorId out : graph.op(id).outputs) {
        if (graph.storage(out) != out || graph.tensor(out).bytes == 0) continue;
        const auto excess = most_excess(graph, plan, replayed, out);
        if (excess) expected = std::max(expected.value_or(*excess), *excess);
      }
      ASSERT_EQ(away[id].has_value(), expected.has_value()) << "op " << id;
      if (!expected) continue;
      EXPECT_EQ(away[id]->bytes - away[id]->room, *expected) << "op " << id;
      EXPECT_EQ(graph.producer(away[id]->value), id);
      ++found;
    }
  }
  EXPECT_GT(found, 200);
}

}  // namespace
}  // namespace lowtide::testing
