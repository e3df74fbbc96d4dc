#include "report/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "plan/replay.h"
#include "report/samples.h"

namespace lowtide::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Explain, NamesWhatThePeakHolds) {
  const Graph graph = three_ops();
  const report::Explanation e = report::explain(graph, keep_all(graph));
  EXPECT_EQ(e.peak_bytes, 100 + 1000 + 200 + 50 + 30);
  EXPECT_EQ(e.peak_op, 2);
  EXPECT_EQ(e.resident_bytes, 100);
  EXPECT_EQ(e.workspace_bytes, 30);
  ASSERT_EQ(e.held.size(), 3u);
  EXPECT_EQ(e.held[0].tensor, 1);
  EXPECT_EQ(e.held[0].bytes, 1000);
  EXPECT_EQ(e.held[1].tensor, 2);
  EXPECT_EQ(e.held[2].tensor, 3);
  EXPECT_TRUE(e.again.empty());
  EXPECT_EQ(e.overhead(), 0);
}

TEST(Explain, CountsWhatRunsAgain) {
  const Graph graph = three_ops();
  const report::Explanation e = report::explain(graph, with_recomputation(graph));
  ASSERT_EQ(e.again.size(), 1u);
  EXPECT_EQ(e.again[0].op, 0);
  EXPECT_EQ(e.again[0].runs, 2);
  EXPECT_EQ(e.again[0].cost, 10);
  EXPECT_EQ(e.cost, 30);
  EXPECT_EQ(e.keep_all_cost, 20);
  EXPECT_EQ(e.overhead(), 0.5);
  EXPECT_EQ(e.keep_all_peak_bytes, 1380);
}

TEST(Explain, CountsWhatMoves) {
  const Graph graph = three_ops();
  const report::Explanation e = report::explain(graph, with_moves(graph));
  ASSERT_EQ(e.moved.size(), 1u);
  EXPECT_EQ(e.moved[0].storage, 1);
  EXPECT_EQ(e.moved[0].times_back, 1);
  EXPECT_DOUBLE_EQ(e.moved[0].copies, 30);
  EXPECT_DOUBLE_EQ(e.moved[0].waited, 16 + 10);  // small takes 4 of the copy out
  EXPECT_DOUBLE_EQ(e.cost, 20 + 26);
  EXPECT_THAT(report::format_explanation(graph, e),
              AllOf(HasSubstr("moves to slower memory   bytes  times back  copies, of keep-all"),
                    HasSubstr("a                       1000 B           1"
                              "              150.00%  130.00%")));
  EXPECT_THAT(report::format_explanation(graph, report::explain(graph, keep_all(graph))),
              Not(HasSubstr("slower memory")));
}

TEST(Explain, SaysInWhichOfTwoPlacesAValueLies) {
  const Graph graph = three_ops();
  Plan plan = with_moves(graph);
  EXPECT_THAT(report::format_explanation(graph, report::explain(graph, plan)),
              Not(HasSubstr("lies in")));
  const Lanes lanes = plan.slower->lanes;
  plan.slower->second = SecondPlace{.begin = plan.slower->bytes, .lanes = lanes};
  EXPECT_THAT(report::format_explanation(graph, report::explain(graph, plan)),
              AllOf(HasSubstr("lies in"), HasSubstr("130.00%  the host's memory")));
  plan.slower->second->begin = 0;
  EXPECT_THAT(report::format_explanation(graph, report::explain(graph, plan)),
              HasSubstr("130.00%  the disk"));
}

TEST(Explain, AddsUpOnRandomPlans) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph(seed);
    const Plan plan = lower(graph, random_executions(graph, seed));
    const report::Explanation e = report::explain(graph, plan);
    Bytes held = e.resident_bytes + e.workspace_bytes;
    for (const report::Explanation::Held& h : e.held) held += h.bytes;
    EXPECT_EQ(held, e.peak_bytes);
    EXPECT_EQ(e.peak_bytes, plan.peak_bytes);

    std::map<OpId, int> runs;
    double first = 0, again = 0;
    for (const Action& action : plan.actions) {
      if (action.verb == Verb::run && ++runs[action.index] == 1) {
        first += graph.op(action.index).cost;
      }
    }
    for (const report::Explanation::Again& a : e.again) {
      EXPECT_EQ(a.runs, runs[a.op]);
      again += a.cost;
    }
    EXPECT_NEAR(first + again, plan.cost, 1e-9 * plan.cost);
  }
}

TEST(Explain, ReadsAsText) {
  const Graph graph = three_ops();
  const std::string text =
      report::format_explanation(graph, report::explain(graph, with_recomputation(graph)), 2);
  EXPECT_THAT(text, HasSubstr("The peak is 1.35 KiB, 100.0% of the 1.35 KiB that keep-all needs; "
                              "it is reached in last.\n"));
  EXPECT_THAT(text, HasSubstr("A step costs 50.00% more than keep-all.\n"));
  EXPECT_THAT(text, HasSubstr("1000 B  big (forward)\n"));
  EXPECT_THAT(text, HasSubstr("and 1 smaller values of 50 B together\n"));
  EXPECT_THAT(text, HasSubstr("50.00%"));
  EXPECT_THAT(text, HasSubstr("others 100 B"));
  EXPECT_THAT(text, HasSubstr("1000 B from small to last"));
}

TEST(Explain, SaysThatNothingRunsAgain) {
  const Graph graph = three_ops();
  EXPECT_THAT(report::format_explanation(graph, report::explain(graph, keep_all(graph))),
              HasSubstr("Nothing runs again."));
}

TEST(Explain, TakesAnEmptyGraph) {
  const Graph graph{GraphData{}};
  const report::Explanation e = report::explain(graph, keep_all(graph));
  EXPECT_EQ(e.peak_bytes, 0);
  EXPECT_EQ(e.peak_op, kNone);
  EXPECT_NE(report::format_explanation(graph, e), "");
}

}  // namespace
}  // namespace lowtide::testing
