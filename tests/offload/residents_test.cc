#include "offload/residents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "graph/boundary.h"
#include "graph/permuted.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "support/random_graph.h"

namespace lowtide::offload {
namespace {

using testing::op;
using testing::random_graph;
using testing::resident;
using testing::value;
using testing::view;

/// One parameter w with its momentum m; the batch x; a constant c that is read again after its
/// write, and an output that shows the parameter p.
GraphData step_data() {
  GraphData data;
  data.tensors = {resident("x", 8),  resident("w", 8), resident("m", 8), resident("c", 8),
                  resident("p", 8),  value("y", 8),    value("g", 8),    value("z", 8),
                  view("of p", 4)};
  data.tensors[0].role = Role::input;
  data.ops = {op("forward", {0, 1}, {5}), op("backward", {5, 1}, {6}), op("other", {5, 3}, {7}),
              op("count", {3}, {}),       op("update", {1, 6, 2}, {}), op("read", {3}, {}),
              op("show", {4}, {8}, 0)};
  data.ops[3].mutates = {0};
  data.ops[4].mutates = {0, 2};
  data.outputs = {7, 8};
  return data;
}

TEST(MovableResidents, LeavesOutTheBatchOutputsAndWhatIsReadAfterItIsWritten) {
  const std::vector<bool> found = movable_residents(Graph(step_data()));
  const std::vector<bool> w_and_m{false, true, true, false, false, false, false, false, false};
  EXPECT_EQ(found, w_and_m);
}

/// A forward and a backward pass: of the batch x, the parameters w and u, and g of the caller. The
/// caller is given u as well.
GraphData passes_data(Role role_of_w) {
  GraphData data;
  data.tensors = {resident("x", 8), value("y", 8), resident("g", 8), value("z", 8),
                  resident("w", 8), resident("u", 8)};
  data.tensors[4].role = role_of_w;
  data.tensors[5].role = Role::parameter;
  data.ops = {op("forward", {0, 4, 5}, {1}), op("caller", {1, 5, 2}, {}),
              op("backward", {0, 2, 4, 5}, {3})};
  data.ops[1].type = kBoundary;
  data.ops[1].mutates = {2};
  data.ops[1].recomputable = false;
  data.outputs = {3};
  return data;
}

TEST(MovableResidents, AreTheParametersOfAGraphWithABoundaryThatTheCallerIsNotGiven) {
  std::vector<bool> only_w(6);
  only_w[4] = true;
  EXPECT_EQ(movable_residents(Graph(passes_data(Role::parameter))), only_w);
  EXPECT_EQ(movable_residents(Graph(passes_data(Role::none))), std::vector<bool>(6));
}

TEST(MovableResidents, AreNoParametersThatAGraphWithABoundaryWrites) {
  GraphData data = passes_data(Role::parameter);
  data.ops.push_back(op("update", {4, 3}, {}));
  data.ops.back().mutates = {0};
  data.ops.back().recomputable = false;
  EXPECT_EQ(movable_residents(Graph(std::move(data))), std::vector<bool>(6));
}

TEST(EarlyWrites, AnUpdateComesRightAfterItsGradient) {
  const Graph graph(step_data());
  const std::vector<OpId> expected{0, 1, 4, 2, 3, 5, 6};
  EXPECT_EQ(order_of_early_writes(graph), expected);
}

TEST(EarlyWritesProperty, KeepTheOrderOfEffects) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph(seed);
    const std::vector<OpId> order = order_of_early_writes(graph);
    const std::vector<OpId> place = inverse(order);
    const Graph early = permuted(graph, order);
    EXPECT_EQ(keep_all_reference(early).cost, keep_all_reference(graph).cost);
    for (OpId writer = 0; writer < graph.num_ops(); ++writer) {
      for (int at : graph.op(writer).mutates) {
        const TensorId written = graph.storage(graph.op(writer).inputs[at]);
        for (OpId user = 0; user < graph.num_ops(); ++user) {
          const bool uses = std::ranges::any_of(graph.op(user).inputs, [&](TensorId in) {
            return graph.storage(in) == written;
          });
          if (uses && !graph.is_view_op(user)) {
            EXPECT_EQ(user < writer, place[user] < place[writer]);
          }
        }
      }
    }
  }
}

TEST(ResidentsByWorth, WhatOneOpUsesComesBeforeWhatManyDo) {
  const Lanes lanes{.out = {0, 0.01}, .in = {0, 0.01}};
  const std::vector<TensorId> m_before_w{2, 1};
  EXPECT_EQ(residents_by_worth(Graph(step_data()), lanes), m_before_w);
}

}  // namespace
}  // namespace lowtide::offload
