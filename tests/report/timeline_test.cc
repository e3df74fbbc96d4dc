#include "report/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/replay.h"
#include "report/memory_plot.h"
#include "report/samples.h"

namespace lowtide::testing {
namespace {

using ::testing::ElementsAre;

std::vector<double> times_of(const std::vector<report::Moment>& moments,
                             double report::Moment::* time) {
  std::vector<double> found;
  for (const report::Moment& moment : moments) found.push_back(moment.*time);
  return found;
}

TEST(Timeline, RunsOneAfterTheOther) {
  const Graph graph = three_ops();
  const Plan plan = with_recomputation(graph);
  const auto moments = report::timeline(graph, plan);
  ASSERT_EQ(moments.size(), plan.actions.size());
  EXPECT_EQ(moments.back().end, replay(graph, plan).cost);
}

TEST(Timeline, CopiesBesideOps) {
  const Graph graph = three_ops();
  const Plan plan = with_moves(graph);
  const auto moments = report::timeline(graph, plan);
  EXPECT_THAT(times_of(moments, &report::Moment::reached),
              ElementsAre(0, 10, 10, 14, 30, 30, 30, 40, 46, 46));
  EXPECT_THAT(times_of(moments, &report::Moment::begin),
              ElementsAre(0, 10, 10, 14, 30, 30, 30, 40, 46, 46));
  EXPECT_THAT(times_of(moments, &report::Moment::end),
              ElementsAre(10, 30, 14, 30, 30, 40, 40, 46, 46, 46));
  EXPECT_EQ(moments.back().end, replay(graph, plan).cost);
}

TEST(Timeline, ACopyBeginsWhenItsLaneIsFree) {
  const Graph graph = three_ops();
  Plan plan = with_moves(graph);
  plan.actions.insert(plan.actions.begin() + 3, {Verb::offload, 2, {}});
  const auto moments = report::timeline(graph, plan);
  EXPECT_EQ(moments[3].reached, 14);
  EXPECT_EQ(moments[3].begin, 30);
  EXPECT_EQ(moments[3].end, 34);
}

TEST(Timeline, CurvesOfMemoryWaitForCopies) {
  const Graph graph = three_ops();
  const report::MemoryCurve curve = report::memory_curve(graph, with_moves(graph), "moves");
  EXPECT_EQ(curve.begin[7], 40);
  EXPECT_EQ(curve.end, 46);
}

}  // namespace
}  // namespace lowtide::testing
