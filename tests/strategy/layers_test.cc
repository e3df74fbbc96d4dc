// Strategies that know the layers of a model.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "strategy/checkpointing.h"
#include "strategy/layers/model_layers.h"
#include "support/ask.h"
#include "support/attention_step.h"
#include "support/random_graph.h"

namespace lowtide::strategy {
namespace {

using testing::ask;

/// The ops that run twice, by name.
std::set<std::string> run_twice(const Graph& graph, const std::vector<OpId>& executions) {
  std::map<OpId, int> runs;
  for (OpId id : executions) ++runs[id];
  std::set<std::string> names;
  for (const auto& [id, count] : runs) {
    EXPECT_LE(count, 2) << graph.op(id).name;
    if (count == 2) names.insert(graph.op(id).name);
  }
  return names;
}

std::set<std::string> run_twice_by(const Graph& graph, const GivenOptions& options) {
  const Bytes least = *ask("megatron", graph, 0, options).smallest_peak;
  return run_twice(graph, ask("megatron", graph, least, options).executions);
}

std::set<std::string> in_layers(std::initializer_list<int> layers,
                                std::initializer_list<const char*> ops) {
  std::set<std::string> names;
  for (int layer : layers) {
    for (const char* op : ops) names.insert(fmt::format("blocks.{}.{}", layer, op));
  }
  return names;
}

TEST(ModelLayers, AreKnownByTheNamesOfOps) {
  const Graph graph = testing::AttentionStep(3).graph();
  const remat::StageGraph stages(graph);
  const int end = forward_end(stages);
  const layers::ModelLayers found = layers::model_layers(graph, stages, end);
  EXPECT_EQ(found.count, 3);
  for (int i = 0; i < end; ++i) {
    const std::string& name = graph.op(stages.stage(i).op).name;
    const bool is_inside = name.starts_with("blocks.");
    EXPECT_EQ(found.of_stage[i], is_inside ? name[7] - '0' : kNone) << name;
  }
}

TEST(ModelLayers, AreFoundWithoutNamesToo) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = testing::random_graph(seed, {.ops = 30});
    const remat::StageGraph stages(graph);
    const int end = forward_end(stages);
    const layers::ModelLayers found = layers::model_layers(graph, stages, end);
    EXPECT_GE(found.count, 1);
    EXPECT_TRUE(std::ranges::is_sorted(found.of_stage));
    for (int layer : found.of_stage) EXPECT_TRUE(0 <= layer && layer < found.count);
  }
}

TEST(Megatron, RunsEachLayerAgainAsUsersOfCheckpointDo) {
  const Graph graph = testing::AttentionStep(4).graph();
  EXPECT_EQ(run_twice_by(graph, {{"layers", 1}}),
            in_layers({0, 1, 2, 3}, {"query", "scores", "scale", "softmax", "dropped", "out"}));
}

TEST(Megatron, KeepsTheSumsBetweenChunksOnly) {
  const Graph graph = testing::AttentionStep(4).graph();
  const std::set<std::string> twice = run_twice_by(graph, {{"layers", 2}});
  EXPECT_TRUE(twice.contains("blocks.0.sum") && twice.contains("blocks.2.sum"));
  EXPECT_FALSE(twice.contains("blocks.1.sum") || twice.contains("blocks.3.sum"));
}

TEST(Megatron, RunsTheFirstLayersAgainByTheMethodBlock) {
  const Graph graph = testing::AttentionStep(4).graph();
  EXPECT_EQ(run_twice_by(graph, {{"method", "block"}, {"layers", 2}}),
            in_layers({0, 1}, {"query", "scores", "scale", "softmax", "dropped", "out"}));
}

TEST(Megatron, RunsTheCoreOfAttentionAgain) {
  const Graph graph = testing::AttentionStep(3).graph();
  EXPECT_EQ(run_twice_by(graph, {{"granularity", "selective"}, {"layers", 3}}),
            in_layers({0, 1, 2}, {"scores", "scale", "softmax", "dropped"}));
}

TEST(Megatron, RunsNothingAgainThatFits) {
  const Graph graph = testing::AttentionStep(3).graph();
  const Decision decision = ask("megatron", graph, testing::share_of_peak(graph, 1));
  EXPECT_TRUE(run_twice(graph, decision.executions).empty());
}

}  // namespace
}  // namespace lowtide::strategy
