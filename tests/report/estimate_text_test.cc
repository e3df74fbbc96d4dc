#include "report/estimate_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lowtide::testing {
namespace {

using estimate::Estimate;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Estimate estimate_of_a_net() {
  return {.name = "net",
          .parameters = 25,
          .whole = {{"parameters", 100}, {"activations", 1200}},
          .by_layer = {{"blocks.0.mlp", 600}, {"blocks.11.mlp", 500}, {"", 100}},
          .by_kind = {{"addmm", 1000}, {"gelu", 200}},
          .at_peak = {{"parameters", 100}, {"activations", 1100}, {"workspace", 30}},
          .peak_bytes = 1230,
          .peak_op = "last",
          .peak_phase = "backward",
          .notes = {"Workspaces were measured."}};
}

TEST(EstimateText, IsATableOfPartsLayersAndKinds) {
  EXPECT_THAT(report::format_estimate(estimate_of_a_net()),
              AllOf(HasSubstr("net: 25 parameters, peak 1.20 KiB in last (backward)"),
                    HasSubstr("parameters      100 B        100 B"),
                    HasSubstr("workspace           -         30 B"),
                    HasSubstr("blocks.*.mlp          1.07 KiB       2"),
                    HasSubstr("(outside of all)         100 B       1"), HasSubstr("gelu"),
                    HasSubstr("\nWorkspaces were measured.\n"), Not(HasSubstr("Within"))));
}

TEST(EstimateText, LeavesOutRowsAndSaysSo) {
  EXPECT_THAT(report::format_estimate(estimate_of_a_net(), 1),
              AllOf(HasSubstr("and 1 more"), Not(HasSubstr("gelu"))));
}

TEST(EstimateText, TellsAPlan) {
  Estimate planned = estimate_of_a_net();
  planned.planned = {.budget_bytes = 1024, .strategy = "search", .peak_bytes = 1000,
                     .overhead = 0.25};
  EXPECT_THAT(report::format_estimate(planned),
              HasSubstr("Within 1.00 KiB, search plans a peak of 1000 B, and 25.0% more time"));
  EXPECT_EQ(report::estimate_json(planned)["planned"]["peak_bytes"], 1000);
  EXPECT_TRUE(report::estimate_json(estimate_of_a_net())["planned"].is_null());
}

TEST(EstimateText, TellsAPeakInPlace) {
  Estimate in_place = estimate_of_a_net();
  in_place.in_place_peak_bytes = 1100;
  EXPECT_THAT(report::format_estimate(in_place), HasSubstr("a peak of 1.07 KiB"));
  EXPECT_EQ(report::estimate_json(in_place)["in_place_peak_bytes"], 1100);
  EXPECT_TRUE(report::estimate_json(estimate_of_a_net())["in_place_peak_bytes"].is_null());
}

TEST(EstimateText, LargeNumbersHaveWords) {
  Estimate large = estimate_of_a_net();
  large.parameters = 174'604'259'328;
  EXPECT_THAT(report::format_estimate(large), HasSubstr("net: 174.6 billion parameters"));
  large.parameters = 124'439'808;
  EXPECT_THAT(report::format_estimate(large), HasSubstr("net: 124.4 million parameters"));
}

TEST(EstimateText, JsonHasEveryPartInBytes) {
  const nlohmann::ordered_json document = report::estimate_json(estimate_of_a_net());
  EXPECT_EQ(document["whole"]["activations"], 1200);
  EXPECT_EQ(document["at_peak"]["workspace"], 30);
  EXPECT_EQ(document["by_layer"]["blocks.11.mlp"], 500);
  EXPECT_EQ(document["by_kind"]["gelu"], 200);
  EXPECT_EQ(document["peak_bytes"], 1230);
}

}  // namespace
}  // namespace lowtide::testing
