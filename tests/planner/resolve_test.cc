#include "planner/resolve.h"

#include <gtest/gtest.h>

#include "plan/replay.h"
#include "planner/frontier.h"
#include "planner/planner.h"
#include "support/random_graph.h"

namespace lowtide::planner {
namespace {

using testing::op;
using testing::resident;
using testing::value;

/// A chain of values of a few bytes, so that addresses need more than the values.
Graph with_small_values() {
  GraphData data;
  data.tensors = {resident("input", 4), value("a", 4), value("b", 4), value("c", 4)};
  data.ops = {op("f", {0}, {1}), op("g", {1}, {2}), op("h", {1, 2}, {3})};
  for (Op& each : data.ops) each.args = {true};  // executable, so that addresses are aligned
  data.outputs = {3};
  return Graph(std::move(data));
}

TEST(Resolve, AllOfKeepAllHoldsItsAddresses) {
  const Graph graph = with_small_values();
  const Bytes peak = keep_all_reference(graph).peak_bytes;
  const Bytes all = resolve(parse_budget("100%"), graph);
  EXPECT_GT(all, peak);
  Control control;
  const Planned planned =
      plan_within(graph, strategy::find_strategy("keep-all"), all, {}, control);
  EXPECT_TRUE(planned.plan.has_value()) << planned.message;
}

TEST(Resolve, AFrontierBeginsWithKeepAll) {
  const Graph graph = with_small_values();
  Control control;
  const Frontier found = frontier(graph, strategy::default_strategy(), 3, {}, control);
  ASSERT_FALSE(found.points.empty());
  EXPECT_EQ(found.points.front().plan->cost, keep_all_reference(graph).cost);
}

TEST(Resolve, LessIsAShareOfThePeak) {
  const Graph graph = with_small_values();
  EXPECT_EQ(resolve(parse_budget("50%"), graph), keep_all_reference(graph).peak_bytes / 2);
}

TEST(Resolve, BytesAreAsGiven) {
  EXPECT_EQ(resolve(parse_budget("17"), with_small_values()), 17);
  EXPECT_EQ(resolve(Budget(), with_small_values()), kUnlimitedBytes);
}

}  // namespace
}  // namespace lowtide::planner
