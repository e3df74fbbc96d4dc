#include "report/layout_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "layout/layout.h"
#include "report/layout_boxes.h"
#include "report/samples.h"
#include "support/count_matches.h"
#include "support/throws.h"

namespace lowtide::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<report::Box> boxes_of_recomputation() {
  const Graph graph = three_ops();
  const Plan plan = with_recomputation(graph);
  const layout::PlanBuffers needed = layout::buffers_of(graph, plan);
  return report::boxes_of(graph, plan, needed, packing::pack(needed.buffers));
}

report::LayoutPlot sample() {
  return {.title = "Three <ops>",
          .subtitle = "a & b",
          .time_label = "actions",
          .boxes = boxes_of_recomputation(),
          .budget_bytes = 1500};
}

TEST(LayoutBoxes, SayWhatEachBufferIs) {
  std::vector<std::string> names;
  std::vector<report::Content> contents;
  for (const report::Box& box : boxes_of_recomputation()) {
    names.push_back(box.name);
    contents.push_back(box.content);
  }
  EXPECT_THAT(names, ElementsAre("others", "a", "b", "a", "c", "workspace of last"));
  EXPECT_THAT(contents, ElementsAre(report::Content::other_residents, report::Content::activations,
                                    report::Content::activations, report::Content::recomputed,
                                    report::Content::backward, report::Content::workspaces));
}

/// What an op makes is a gradient too when only a view of it is the parameter's gradient, as the
/// transpose of a product is.
TEST(LayoutBoxes, AViewThatIsAGradientMakesItsStorageOne) {
  GraphData data;
  Tensor view;
  view.name = "transposed";
  view.kind = Kind::value;
  view.alias_of = 1;
  view.role = Role::gradient;
  data.tensors = {resident("w", 100), value("product", 100), view};
  data.ops = {op("mm", {0}, {1}, 10), op("t", {1}, {2}, 0)};
  for (Op& each : data.ops) each.phase = Phase::backward;
  data.outputs = {2};
  const Graph graph(data);
  const Plan plan = keep_all(graph);
  const layout::PlanBuffers needed = layout::buffers_of(graph, plan);
  const auto boxes = report::boxes_of(graph, plan, needed, packing::pack(needed.buffers));
  ASSERT_EQ(boxes.back().name, "product");
  EXPECT_EQ(boxes.back().content, report::Content::gradients);
}

TEST(LayoutBoxes, LieBehindTheResidents) {
  const std::vector<report::Box> boxes = boxes_of_recomputation();
  EXPECT_EQ(boxes[0].offset, 0);
  EXPECT_EQ(boxes[0].bytes, 100);
  for (std::size_t i = 1; i < boxes.size(); ++i) EXPECT_GE(boxes[i].offset, 100);
}

TEST(LayoutBoxes, TellLivesApartByLength) {
  const std::vector<packing::Buffer> buffers{
      {0, 160, 1}, {0, 10, 1}, {0, 11, 1}, {0, 40, 1}, {0, 41, 1}};
  const std::vector<std::string> names{"a", "b", "c", "d", "e"};
  std::vector<report::Content> contents;
  for (const report::Box& box : report::boxes_of(names, buffers, packing::pack(buffers, 1)))
    contents.push_back(box.content);
  EXPECT_THAT(contents, ElementsAre(report::Content::long_lived, report::Content::short_lived,
                                    report::Content::medium_lived, report::Content::medium_lived,
                                    report::Content::long_lived));
}

TEST(LayoutPlot, HasARectangleWithATooltipForEachBox) {
  const std::string svg = report::format_layout_plot(sample());
  EXPECT_EQ(count_matches(svg, "<rect [^>]*><title>"), 6u);
  EXPECT_THAT(svg, HasSubstr("<title>a, 1000 B, 0 to "));
  EXPECT_THAT(svg, HasSubstr("<title>workspace of last, 30 B, "));
}

TEST(LayoutPlot, MarksWhenMostIsAliveAndHowHighItGoes) {
  report::LayoutPlot plot{.title = "t", .subtitle = "", .time_label = "time"};
  plot.boxes = {{0, 4, 0, 1000, report::Content::activations, "low"},
                {6, 9, 500, 1600, report::Content::workspaces, "high"}};
  plot.budget_bytes = 3000;
  const std::string svg = report::format_layout_plot(plot);
  EXPECT_THAT(svg, HasSubstr("most alive: 1.56 KiB at 6"));
  EXPECT_THAT(svg, HasSubstr("height 2.05 KiB"));
  EXPECT_THAT(svg, HasSubstr("budget 2.93 KiB"));
  EXPECT_EQ(count_matches(svg, "<line class=\"budget\""), 1u);
  EXPECT_THAT(svg, HasSubstr(">workspaces</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">recomputed</text>")));  // no box has this content
}

TEST(LayoutPlot, KeepsEveryRectangleWithinTheAxes) {
  const std::string svg = report::format_layout_plot(sample());
  const std::regex rect(
      "<rect x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"([0-9.]+)\" height=\"([0-9.]+)\">");
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), rect); at != std::sregex_iterator();
       ++at) {
    const double x = std::stod((*at)[1]), y = std::stod((*at)[2]);
    EXPECT_GE(x, 76);
    EXPECT_LE(x + std::stod((*at)[3]), 830.5);
    EXPECT_GE(y, 104);
    EXPECT_LE(y + std::stod((*at)[4]), 540.5);
  }
}

TEST(LayoutPlot, EscapesText) {
  const std::string svg = report::format_layout_plot(sample());
  EXPECT_THAT(svg, HasSubstr("Three &lt;ops&gt;"));
  EXPECT_THAT(svg, HasSubstr("a &amp; b"));
  EXPECT_THAT(svg, Not(HasSubstr("<ops>")));
}

TEST(LayoutPlot, DrawsLivesAtTheEndsOfTime) {
  constexpr std::int32_t kLast = 2147483647;
  report::LayoutPlot plot{.title = "t", .subtitle = "", .time_label = "time"};
  plot.boxes = {{-kLast, kLast, 0, 1, report::Content::long_lived, "all"}};
  EXPECT_THAT(report::format_layout_plot(plot), HasSubstr("<title>all, 1 B"));
}

TEST(LayoutPlot, RefusesNothingToDraw) {
  report::LayoutPlot plot{.title = "t", .subtitle = "", .time_label = "time"};
  plot.boxes = {{3, 3, 0, 100, report::Content::long_lived, "never"}};
  EXPECT_THROWS_INPUT_ERROR(report::format_layout_plot(plot), HasSubstr("takes room"));
}

}  // namespace
}  // namespace lowtide::testing
