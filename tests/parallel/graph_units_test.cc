#include "parallel/units/graph_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost/roofline.h"
#include "estimate/from_graph.h"
#include "models/model.h"
#include "parallel/placement_search.h"
#include "parallel/some_clusters.h"
#include "support/throws.h"

namespace lowtide::testing {
namespace {

using parallel::CutStep;
using parallel::LayeredModel;
using parallel::StepPart;

Graph step_of(const std::string& model, std::int64_t samples) {
  const models::Model& found = models::find_model(model);
  models::ModelOptions sizes;
  sizes.batch = samples;
  if (model == "gpt") sizes.layers = 6;
  if (found.task == models::Task::images && model != "mlp") sizes.image = 64;
  return cost::roofline_priced(models::training_graph(found, sizes, {.name = "adam"}));
}

CutStep cut_of(const Graph& step) {
  return parallel::cut_step(step, parallel::part_begins(step));
}

class EachModel : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Models, EachModel, ::testing::Values("gpt", "resnet18", "mlp", "vgg16"));

/// The parts together are the step: its parameters, its arithmetic, its cost.
TEST_P(EachModel, PartsAddUpToTheStep) {
  const Graph step = step_of(GetParam(), 8);
  const CutStep cut = cut_of(step);
  ASSERT_GT(cut.parts.size(), 3U);
  const estimate::Estimate whole = estimate::from_graph(step);
  parallel::StateBytes state;
  double cost = 0;
  for (const StepPart& part : cut.parts) {
    state += part.state;
    for (const Op& op : part.graph.ops()) {
      if (!op.type.starts_with("lowtide::")) cost += op.cost;
    }
  }
  state -= cut.tied;
  EXPECT_EQ(state.parameters, estimate::bytes_of(whole.whole, "parameters"));
  EXPECT_EQ(state.gradients, estimate::bytes_of(whole.whole, "gradients"));
  // Counters and rates of the optimizer are of no parameter; shares are rounded down.
  EXPECT_NEAR(static_cast<double>(state.optimizer),
              static_cast<double>(estimate::bytes_of(whole.whole, "optimizer state")), 1000);
  double expected = 0;
  for (const Op& op : step.ops()) {
    if (op.phase != Phase::optimizer) expected += op.cost;
  }
  // Views that several parts read are in each.
  EXPECT_NEAR(cost / expected, 1, 0.02);
}

/// What the parts keep when nothing runs again is what the step holds after its forward pass; the
/// value between two parts is counted by one.
TEST_P(EachModel, PartsKeepWhatTheStepKeeps) {
  const Graph step = step_of(GetParam(), 8);
  const LayeredModel model = parallel::graph_units(
      GetParam(), [](std::int64_t samples) { return step_of(GetParam(), samples); }, true, true);
  const parallel::Cluster cluster = a100_cluster(1, 1);
  const std::vector<parallel::Unit> units = model.units(
      {.split = {}, .micro_batch = 8, .cluster = cluster, .device = cluster.kinds[0].device});
  Bytes kept = 0;
  for (int kind : model.sequence) {
    const auto all = std::ranges::max_element(units[kind].plans, {},
                                              &parallel::UnitPlan::held_bytes);
    kept += all->held_bytes;
  }
  const double expected = static_cast<double>(
      estimate::bytes_of(estimate::from_graph(step).whole, "activations"));
  EXPECT_NEAR(static_cast<double>(kept) / expected, 1, 0.06);
}

TEST(GraphUnits, BlocksOfATransformerAreAlike) {
  const LayeredModel model = parallel::graph_units(
      "gpt", [](std::int64_t samples) { return step_of("gpt", samples); }, true, false);
  // Embedding, six blocks, head: of the blocks all but the first or last may differ in the ops
  // around them.
  ASSERT_GE(model.sequence.size(), 7U);
  const int block = model.sequence[3];
  EXPECT_GE(std::ranges::count(model.sequence, block), 4);
}

TEST(GraphUnits, OneRankHoldsWhatThePlanOfTheStepHolds) {
  const LayeredModel model = parallel::graph_units(
      "mlp", [](std::int64_t samples) { return step_of("mlp", samples); }, true, true);
  const Graph step = step_of("mlp", 16);
  const estimate::Estimate whole = estimate::from_graph(step);
  parallel::Cluster cluster = a100_cluster(1, 1);
  parallel::SearchLimits limits;
  limits.space.global_batch = limits.space.micro_batch.emplace(16);
  const auto most_memory = [&] {
    return parallel::find_placements(model, cluster, limits, Control())
        .best.front()
        .most_memory_bytes;
  };
  EXPECT_EQ(most_memory(), *whole.in_place_peak_bytes);
  // Too little for keep-all, and for the sum over units.
  cluster.kinds[0].memory_bytes = *whole.in_place_peak_bytes * 97 / 100;
  EXPECT_LE(most_memory(), cluster.kinds[0].memory_bytes);
}

TEST(GraphUnits, RefuseAGraphThatDoesNotTrain) {
  const Graph forward = models::inference_graph(models::find_model("mlp"), {});
  EXPECT_THROWS_INPUT_ERROR(
      parallel::graph_units("mlp", [&](std::int64_t) { return forward; }, false, true),
      ::testing::HasSubstr("no backward pass"));
}

}  // namespace
}  // namespace lowtide::testing
