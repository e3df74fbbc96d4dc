#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "layout/layout.h"
#include "plan/verify.h"
#include "support/check_plan.h"
#include "support/random_graph.h"

namespace lowtide::testing {

/// x (resident) -> a -> b -> c with a view v of a, an in-place permission and an update of x.
///
///   0 make_a: x -> a     1 make_v: a -> v     2 make_b: v -> b (workspace)
///   3 make_c: a, b -> c, which may be written over b      4 update: x, c, overwrites x
inline GraphData sample() {
  GraphData data;
  data.name = "sample";
  data.tensors = {resident("x", 64), value("a", 64), view("v", 1), value("b", 128),
                  value("c", 128)};
  data.ops = {op("make_a", {0}, {1}), op("make_v", {1}, {2}, 0), op("make_b", {2}, {3}, 1, 32),
              op("make_c", {1, 3}, {4}), op("update", {0, 4}, {})};
  data.ops[3].inplace = {{0, 1}};
  data.ops[4].mutates = {0};
  data.ops[4].recomputable = false;
  data.outputs = {4};
  return data;
}

/// Each test corrupts this good plan in one way.
struct VerifyTest : ::testing::Test {
  VerifyTest() { EXPECT_FALSE(verify(graph, plan)); }

  /// 0 run make_a, 1 run make_v, 2 run make_b, 3 run make_c over b, 4 free a, 5 run update
  static Plan good_plan(const Graph& graph) {
    Plan plan;
    plan.graph = "sample";
    plan.actions = {run(0), run(1), run(2), run(3, {0}), free_of(1), run(4)};
    plan.cost = 4;
    plan.peak_bytes = 64 + 64 + 128 + 32;
    plan.layout = layout::assign_addresses(graph, plan);
    return plan;
  }

  void expect(Rule rule, std::int32_t action, const std::string& text) {
    const auto violation = verify(graph, plan);
    ASSERT_TRUE(violation) << "the verifier accepts the corrupted plan";
    EXPECT_EQ(name(violation->rule), name(rule));
    EXPECT_EQ(violation->action, action);
    EXPECT_THAT(violation->message, ::testing::HasSubstr(text));
    const PlanCase one{&graph, &plan};
    EXPECT_FALSE(python_verdicts({&one, 1}).front().valid);
  }

  Placement& address(std::size_t action, std::size_t i = 0) {
    return plan.layout->placements[action][i];
  }

  Graph graph{sample()};
  Plan plan = good_plan(graph);
};

}  // namespace lowtide::testing
