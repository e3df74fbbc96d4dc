#include "planner/why_not_less.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/replay.h"
#include "support/random_graph.h"

namespace lowtide::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(WhyNotLess, NamesWhatTakesTheBytesAndWhatWouldHelp) {
  GraphData data;
  data.tensors = {resident("w", 4000), resident("m", 5000), value("a", 300), value("b", 200),
                  value("c", 700)};
  data.tensors[0].role = Role::parameter;
  data.tensors[1].role = Role::optimizer_state;
  data.ops = {op("first", {0}, {2}), op("second", {0}, {3}), op("wide", {2, 3, 0}, {4}, 1, 90)};
  data.outputs = {4};
  const std::string text = planner::why_not_less(Graph(std::move(data)));
  EXPECT_THAT(text, HasSubstr(fmt::format("({} bytes)", 9000 + 300 + 200 + 700 + 90)));
  EXPECT_THAT(text, HasSubstr("(optimizer state 4.88 KiB, parameters 3.91 KiB)"));
  EXPECT_THAT(text, HasSubstr("op 2 (\"wide\") alone needs 1.26 KiB more"));
  EXPECT_THAT(text, HasSubstr("reads 500 B (the largest is \"a\" of 300 B)"));
  EXPECT_THAT(text, HasSubstr("makes 700 B, works in 90 B"));
  EXPECT_THAT(text, HasSubstr("a smaller batch, with which 1.17 KiB of values of that op shrink"));
  EXPECT_THAT(text, HasSubstr("less than 90 B"));
  EXPECT_THAT(text, HasSubstr("an optimizer that keeps less than 4.88 KiB"));
}

/// Each op needs 135 bytes at most; but the sum reads both a and b, of which one is made last.
TEST(WhyNotLess, NamesTheFloorOfMakingWhereThatIsMore) {
  GraphData data;
  data.tensors = {resident("x", 100), value("a", 10), value("b", 10), value("c", 10)};
  data.ops = {op("a", {0}, {1}, 1, 25), op("b", {0}, {2}, 1, 25), op("sum", {1, 2}, {3})};
  data.outputs = {3};
  const std::string text = planner::why_not_less(Graph(data));
  EXPECT_THAT(text, HasSubstr("(135 bytes)"));
  EXPECT_THAT(text, HasSubstr("no plan in any order needs less than 145 B (145 bytes)"));
  data.ops[0].workspace_bytes = 0;
  EXPECT_THAT(planner::why_not_less(Graph(data)), Not(HasSubstr("in any order")));
}

TEST(WhyNotLess, CountsInWhatTheBudgetHoldsBesideThePlan) {
  const Graph graph = chain_graph(3);
  EXPECT_THAT(planner::why_not_less(graph, 5000),
              AllOf(HasSubstr(fmt::format("({} bytes)", structural_floor(graph).bytes + 5000)),
                    HasSubstr("the reserve 4.88 KiB")));
  EXPECT_THAT(planner::why_not_less(graph), Not(HasSubstr("reserve")));
}

TEST(WhyNotLess, SuggestsOnlyWhatIsThere) {
  const std::string text = planner::why_not_less(chain_graph(3));
  EXPECT_THAT(text, Not(HasSubstr("an optimizer")));
  EXPECT_THAT(text, Not(HasSubstr("works in less than")));
}

/// An update of a parameter, and a workspace, are as large for any batch.
TEST(WhyNotLess, SuggestsASmallerBatchOnlyWhereSomethingShrinks) {
  GraphData data;
  data.tensors = {resident("w", 4000), value("gradient", 4000), value("loss", 4),
                  value("step", 4000)};
  data.tensors[0].role = Role::parameter;
  data.ops = {op("backward", {0}, {1, 2}), op("update", {1}, {3}, 1, 9000)};
  data.outputs = {2, 3};
  const std::string text = planner::why_not_less(Graph(std::move(data)));
  EXPECT_THAT(text, HasSubstr("op 1 (\"update\") alone"));
  EXPECT_THAT(text, Not(HasSubstr("smaller batch")));
  EXPECT_THAT(text, HasSubstr("another op in its place that works in less than 8.79 KiB"));
}

TEST(WhyNotLess, GivesTheFloorOfAnyGraph) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Graph graph = random_graph(seed);
    EXPECT_THAT(planner::why_not_less(graph),
                HasSubstr(fmt::format("({} bytes)", structural_floor(graph).bytes)));
  }
}

}  // namespace
}  // namespace lowtide::testing
