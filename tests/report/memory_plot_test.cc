#include "report/memory_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "base/error.h"
#include "report/samples.h"

namespace lowtide::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

report::MemoryPlot sample_plot() {
  const Graph graph = three_ops();
  report::MemoryPlot plot;
  plot.title = "Three <ops>";
  plot.subtitle = "a & b";
  plot.curves = {report::memory_curve(graph, keep_all(graph), "keep-all"),
                 report::memory_curve(graph, with_recomputation(graph), "again")};
  plot.resident_bytes = graph.resident_bytes();
  return plot;
}

TEST(MemoryCurve, FollowsThePlan) {
  const Graph graph = three_ops();
  const report::MemoryCurve curve = report::memory_curve(graph, keep_all(graph), "keep-all");
  EXPECT_EQ(curve.end, 20);
  ASSERT_EQ(curve.begin.size(), curve.memory.size());
  EXPECT_EQ(curve.memory[0], 1100);
  EXPECT_EQ(curve.begin[1], 10);
  EXPECT_EQ(curve.budget_bytes, std::nullopt);
}

TEST(MemoryPlot, HasACurveALabelAndABudgetForEachPlan) {
  const std::string svg = report::format_memory_plot(sample_plot());
  EXPECT_EQ(count_matches(svg, "<path class=\"curve s[01]\""), 2u);
  EXPECT_EQ(count_matches(svg, "<path class=\"area f[01]\""), 2u);
  EXPECT_EQ(count_matches(svg, "<line class=\"budget s1\""), 1u);
  EXPECT_EQ(count_matches(svg, ">keep-all</text>"), 1u);
  EXPECT_EQ(count_matches(svg, ">again</text>"), 1u);
  EXPECT_THAT(svg, ContainsRegex(">peak [^<]*, [+]50.0% time<"));
  EXPECT_THAT(svg, HasSubstr("keep-all = 100%"));
}

TEST(MemoryPlot, EscapesText) {
  const std::string svg = report::format_memory_plot(sample_plot());
  EXPECT_THAT(svg, HasSubstr("Three &lt;ops&gt;"));
  EXPECT_THAT(svg, HasSubstr("a &amp; b"));
  EXPECT_THAT(svg, Not(HasSubstr("<ops>")));
}

TEST(MemoryPlot, PutsTheHighestCurveBelowTheTop) {
  // Every corner of every path lies inside the frame (76..768 by 92..396).
  const std::string svg = report::format_memory_plot(sample_plot());
  const std::regex corner("[HV]([0-9.]+)");
  for (std::sregex_iterator it(svg.begin(), svg.end(), corner), end; it != end; ++it) {
    const double at = std::stod((*it)[1]);
    const bool horizontal = it->str().front() == 'H';
    EXPECT_GE(at, horizontal ? 76 : 92);
    EXPECT_LE(at, horizontal ? 768 : 396);
  }
}

/// The highest point that the path of a curve reaches: the smallest y.
double top_of(const std::string& svg) {
  const std::size_t begin = svg.find("class=\"curve s0\" d=\"");
  const std::string path = svg.substr(begin, svg.find("/>", begin) - begin);
  double top = 1e9;
  const std::regex level("V([0-9.]+)");
  for (std::sregex_iterator it(path.begin(), path.end(), level), end; it != end; ++it) {
    top = std::min(top, std::stod((*it)[1]));
  }
  return top;
}

TEST(MemoryPlot, LosesNoPeakAmongManyActions) {
  report::MemoryPlot plot;
  plot.title = "many";
  report::MemoryCurve curve;
  curve.label = "keep-all";
  constexpr int kActions = 200'000;
  for (int i = 0; i < kActions; ++i) {
    curve.begin.push_back(i);
    curve.memory.push_back(i == 123'456 ? 1'000'000 : 1000 + i % 7);
  }
  curve.end = kActions;
  plot.curves = {curve};
  const std::string svg = report::format_memory_plot(plot);
  EXPECT_NEAR(top_of(svg), 396 - (396 - 92) / 1.06, 0.1);
  EXPECT_LT(svg.size(), 200'000u);
}

TEST(MemoryPlot, TakesEmptyPlansAndRefusesNone) {
  EXPECT_THROW(report::format_memory_plot(report::MemoryPlot{}), InputError);
  const Graph graph{GraphData{}};
  report::MemoryPlot plot;
  plot.curves = {report::memory_curve(graph, keep_all(graph), "nothing")};
  EXPECT_THAT(report::format_memory_plot(plot), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace lowtide::testing
