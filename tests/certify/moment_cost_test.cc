#include "certify/moment_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "certify/cluster_cost.h"
#include "support/random_graph.h"

namespace lowtide::certify {
namespace {

/// Ops that may run again, from a random one on, with all storages that they make; some ops are
/// left out, so that others get their values for free.
Certificate::Cluster random_cluster(const Graph& graph, const Stages& stages,
                                    std::mt19937& random) {
  Certificate::Cluster cluster;
  std::size_t values = 0;
  for (OpId op = 0; op < graph.num_ops() && values < 10; ++op) {
    const int stage = stages.of_op[op];
    if (stage == kNone || stages.last_rerun[stage] == kNone || random() % 5 == 0) continue;
    Certificate::Rerun rerun{{op}, {}};
    for (TensorId out : graph.op(op).outputs) {
      if (graph.storage(out) == out) rerun.values.push_back(out);
    }
    values += rerun.values.size();
    if (!rerun.values.empty()) cluster.push_back(std::move(rerun));
  }
  return cluster;
}

double most_bytes(const Graph& graph) {
  Bytes most = 1;
  for (const Tensor& tensor : graph.tensors()) most = std::max(most, tensor.bytes);
  return static_cast<double>(most);
}

/// The minimum cut against the program over all sets of held values.
TEST(MomentCost, IsThatOfTheProgramOverSets) {
  std::mt19937 random(5);
  int costly = 0;
  for (unsigned seed = 1; seed <= 120; ++seed) {
    const Graph graph = seed % 2 == 0 ? testing::random_step(seed, 12, 12)
                                      : testing::random_graph(seed, {.ops = 14});
    const Stages stages = stages_of(graph);
    const Certificate::Cluster cluster = random_cluster(graph, stages, random);
    if (cluster.empty()) continue;
    for (int stage = 0; stage <= stages.end(); ++stage) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", stage " << stage);
      std::vector<double> price(stages.ops.size());
      price[static_cast<std::size_t>(stage)] =
          stages.cost / most_bytes(graph) * 1e-3 * static_cast<double>(1 + random() % 250);
      const PriceSums prices(price);
      const double expected = ClusterCost(graph, stages, cluster).least(prices);
      const double cut = moment_cost(graph, stages, cluster, stage, prices.at(stage));
      EXPECT_NEAR(cut, expected, 1e-9 * stages.cost);
      costly += expected > 0;
    }
  }
  EXPECT_GT(costly, 200);
}

}  // namespace
}  // namespace lowtide::certify
