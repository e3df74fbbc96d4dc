#include "parallel/units/unit_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "parallel/some_clusters.h"
#include "parallel/units/transformer_graphs.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "strategy/checkpointing.h"
#include "support/sweep.h"

namespace lowtide::testing {
namespace {

using estimate::TransformerSizes;
using estimate::TransformerTraining;
using parallel::TensorSplit;
using parallel::UnitPlan;

constexpr TransformerSizes kWide = {.layers = 96,
                                       .width = 12288,
                                       .heads = 96,
                                       .vocabulary = 50257,
                                       .sequence = 2048,
                                       .batch = 1};

TransformerTraining half_precision() { return {.compute = DType::bf16, .master_copy = true}; }

Graph block_of(const TransformerSizes& sizes, TensorSplit split,
               const TransformerTraining& training = half_precision()) {
  const parallel::Cluster cluster = a100_cluster(1, 8);
  return parallel::block_graph({sizes, training, split, cluster, cluster.kinds[0].device});
}

/// Bytes that a plan holds after the forward pass.
Bytes held_of(const Graph& graph, const Plan& plan) {
  const auto backward = std::ranges::find_if(plan.actions, [&](const Action& action) {
    return action.verb == Verb::run && graph.op(action.index).phase == Phase::backward;
  });
  return replay(graph, plan).memory[backward - plan.actions.begin() - 1];
}

/// What is kept, in sequence x batch x width bytes, without the statistics of normalizations, when
/// only inputs that were gathered are made again.
double kept_of(const TransformerSizes& sizes, TensorSplit split) {
  const Graph graph = block_of(sizes, split);
  const remat::StageGraph stages(graph);
  std::vector<bool> kept;
  for (const remat::StageValue& value : stages.values()) {
    kept.push_back(!graph.tensor(value.tensor).name.ends_with(".gathered"));
  }
  const std::vector<OpId> order = strategy::checkpointed_order(
      stages, strategy::forward_end(stages), {kept, strategy::lone_groups(stages)});
  const Plan plan = with_in_place(graph, lower(graph, order));
  const Bytes held = held_of(graph, plan);
  // Of the plans found, some are at least as good.
  EXPECT_TRUE(std::ranges::any_of(parallel::unit_plans(graph), [&](const UnitPlan& found) {
    return found.held_bytes <= held &&
           (found.forward_seconds + found.backward_seconds) * 1e6 <= plan.cost * (1 + 1e-12);
  }));
  const double tokens = static_cast<double>(sizes.batch * sizes.sequence);
  const double statistics = 16 * tokens / (split.sequence ? split.ranks : 1);
  return (static_cast<double>(held) - statistics) / (tokens * static_cast<double>(sizes.width));
}

double scores_share(const TransformerSizes& sizes) {
  return 5.0 * static_cast<double>(sizes.heads) * static_cast<double>(sizes.sequence) /
         static_cast<double>(sizes.width);
}

/// Korthikanti et al., 2022, equations 1 to 4 and table 2.
TEST(UnitPlans, KeepWhatThePaperCounts) {
  EXPECT_NEAR(kept_of(kWide, {1, false}), 34 + scores_share(kWide), 1e-9);
  for (const int t : {2, 4, 8}) {
    SCOPED_TRACE(t);
    EXPECT_NEAR(kept_of(kWide, {t, false}), 10 + 24.0 / t + scores_share(kWide) / t, 1e-9);
    EXPECT_NEAR(kept_of(kWide, {t, true}), (34 + scores_share(kWide)) / t, 1e-9);
  }
}

TEST(UnitPlans, AreThoseOfOneRankInEveryByteOfTheFormulas) {
  std::mt19937_64 random(1);
  for (int i = 0; i < sweep(40, 6); ++i) {
    const std::int64_t heads = 1 + static_cast<std::int64_t>(random() % 4);
    const TransformerSizes sizes{.layers = 1,
                                 .width = heads * 16 * static_cast<std::int64_t>(1 + random() % 4),
                                 .heads = heads,
                                 .vocabulary = 100,
                                 .sequence = 16 * (1 + static_cast<std::int64_t>(random() % 8)),
                                 .batch = 1 + static_cast<std::int64_t>(random() % 4)};
    TransformerTraining training = half_precision();
    training.fused_attention = i % 2 == 0;
    training.drops_out = i % 3 != 0;
    const Graph graph = block_of(sizes, {}, training);
    Bytes most = 0;
    for (const UnitPlan& plan : parallel::unit_plans(graph)) {
      if (plan.reruns.empty()) most = plan.held_bytes;
    }
    EXPECT_EQ(most, estimate::block_activations(sizes, training));
  }
}

TEST(UnitPlans, RunTheWholeForwardPassAgainAtLeast) {
  const auto plans = parallel::unit_plans(block_of(kWide, {8, true}));
  // The input of the block and the statistics: checkpoints at every layer (Chen et al., 2016).
  const UnitPlan& least = plans.front();
  const double stream = 2.0 * 2048 * 12288 / 8;
  EXPECT_NEAR(static_cast<double>(least.held_bytes) / stream, 2.5, 0.01);
  EXPECT_GT(least.rerun_seconds, 0.5 * least.forward_seconds);
  EXPECT_LT(least.rerun_seconds, least.forward_seconds);
}

/// Every set of kept values, lowered and replayed: none is better than all plans found.
TEST(UnitPlans, NoOtherSetOfKeptValuesIsBetter) {
  TransformerSizes sizes = kWide;
  sizes.width = 256;
  sizes.heads = 4;
  sizes.sequence = 64;
  TransformerTraining training = half_precision();
  training.fused_attention = true;
  training.drops_out = false;
  const Graph graph = block_of(sizes, {}, training);
  const remat::StageGraph stages(graph);
  const int end = strategy::forward_end(stages);
  std::vector<int> values;
  for (int v = 0; v < stages.num_values(); ++v) {
    if (stages.value(v).producer < end) values.push_back(v);
  }
  ASSERT_LE(values.size(), 16U);
  const std::vector<UnitPlan> plans = parallel::unit_plans(graph);
  for (std::uint32_t set = 0; set < 1U << values.size(); set += sweep(1U, 7U)) {
    std::vector<bool> kept(static_cast<std::size_t>(stages.num_values()));
    for (std::size_t i = 0; i < values.size(); ++i) kept[values[i]] = (set >> i & 1U) != 0;
    const std::vector<OpId> order =
        strategy::checkpointed_order(stages, end, {kept, strategy::lone_groups(stages)});
    const Plan plan = with_in_place(graph, lower(graph, order));
    const Bytes held = held_of(graph, plan);
    const bool is_matched = std::ranges::any_of(plans, [&](const UnitPlan& found) {
      return (found.forward_seconds + found.backward_seconds) * 1e6 <= plan.cost * (1 + 1e-12) &&
             found.held_bytes <= held;
    });
    EXPECT_TRUE(is_matched) << set;
  }
}

TEST(UnitPlans, GetSlowerTheLessTheyHold) {
  for (const bool sequence : {false, true}) {
    const auto plans = parallel::unit_plans(block_of(kWide, {4, sequence}));
    ASSERT_GT(plans.size(), 3U);
    for (std::size_t i = 1; i < plans.size(); ++i) {
      EXPECT_GE(plans[i].held_bytes, plans[i - 1].held_bytes);
      EXPECT_TRUE(plans[i].backward_seconds < plans[i - 1].backward_seconds ||
                  plans[i].working_bytes < plans[i - 1].working_bytes);
      EXPECT_NEAR(plans[i].backward_seconds - plans[i].rerun_seconds,
                  plans[0].backward_seconds - plans[0].rerun_seconds, 1e-9);
    }
  }
}

}  // namespace
}  // namespace lowtide::testing
