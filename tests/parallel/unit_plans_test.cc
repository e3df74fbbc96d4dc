#include "parallel/units/unit_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/units/transformer_graphs.h"

namespace lowtide::testing {
namespace {

using estimate::TransformerSizes;
using estimate::TransformerTraining;
using parallel::TensorSplit;
using parallel::UnitPlan;

parallel::Cluster one_node(int devices) {
  parallel::Cluster cluster{.devices_per_node = devices,
                            .within_node = {.bytes_per_second = 3e11, .seconds_per_message = 5e-6}};
  const cost::DeviceRates& device = cost::find_device("a100");
  cluster.kinds = {{.nodes = 1, .device = device, .memory_bytes = device.memory_bytes}};
  return cluster;
}

constexpr TransformerSizes kGpt175B = {.layers = 96,
                                       .width = 12288,
                                       .heads = 96,
                                       .vocabulary = 50257,
                                       .sequence = 2048,
                                       .batch = 1};

Graph block(const TransformerSizes& sizes, TensorSplit split, bool fused = false) {
  const parallel::Cluster cluster = one_node(8);
  const TransformerTraining training{
      .compute = DType::bf16, .master_copy = true, .fused_attention = fused};
  return parallel::block_graph({sizes, training, split, cluster, cluster.kinds[0].device});
}

TEST(UnitPlans, Show) {
  for (int t : {1, 2, 8}) {
    for (bool sequence : {false, true}) {
      const Graph graph = block(kGpt175B, {t, sequence});
      std::printf("t %d sp %d\n", t, sequence);
      for (const UnitPlan& plan : parallel::unit_plans(graph)) {
        std::printf("  held %.1f MB work %.1f MB f %.3f ms b %.3f ms reruns %zu\n", plan.held_bytes / 1e6,
                    plan.working_bytes / 1e6, plan.forward_seconds * 1e3,
                    plan.backward_seconds * 1e3, plan.reruns.size());
      }
    }
  }
}

}  // namespace
}  // namespace lowtide::testing
