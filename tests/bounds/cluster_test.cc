#include "bounds/cluster.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "support/random_graph.h"

namespace lowtide::bounds {
namespace {

/// The ops of the graph from `first` on, as many as fit into one cluster.
Cluster cluster_from(const remat::StageGraph& graph, std::size_t first) {
  const std::vector<bool> all(static_cast<std::size_t>(graph.num_values()), true);
  std::vector<BoundOp> ops;
  std::size_t values = 0;
  const Contraction contraction = contract(graph, all, Gluing::strict);
  for (std::size_t i = first; i < contraction.ops.size(); ++i) {
    values += contraction.ops[i].outputs.size();
    if (values > 8) break;
    ops.push_back(contraction.ops[i]);
  }
  return Cluster(graph, ops);
}

/// Most of them are zero.
std::vector<double> sparse_prices(std::mt19937& random, int stages) {
  std::vector<double> price(static_cast<std::size_t>(stages));
  for (double& p : price) p = random() % 4 == 0 ? 1e-3 * static_cast<double>(random() % 20) : 0;
  return price;
}

double solve(const Cluster& cluster, std::vector<double> price) {
  SubsetTable table;
  std::vector<Hold> holds;
  return cluster.solve(remat::Prices(std::move(price)), table, holds);
}

/// Without a price, nothing is dropped and nothing runs before it is needed. With a tiny price
/// everywhere, everything is a choice.
TEST(Cluster, LosesNothingBySkippingChoicesWhereStagesHaveNoPrice) {
  std::mt19937 random(1);
  int costly = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    const remat::StageGraph graph(seed % 2 == 0 ? testing::random_step(seed, 12, 12)
                                                : testing::random_graph(seed));
    const Cluster cluster = cluster_from(graph, seed % 5);
    const std::vector<double> price = sparse_prices(random, graph.num_stages());
    std::vector<double> everywhere = price;
    for (double& p : everywhere) p += 1e-13;
    const double least = solve(cluster, price);
    EXPECT_NEAR(least, solve(cluster, everywhere), 1e-5) << "seed " << seed;
    costly += least > 0.1;
  }
  EXPECT_GT(costly, 50);
}

/// The slope of the bound: at other prices, a solution costs no less than the least cost.
TEST(Cluster, HoldsOfItsSolutionPayForItAtItsPrices) {
  std::mt19937 random(2);
  for (unsigned seed = 1; seed <= 100; ++seed) {
    const remat::StageGraph graph(testing::random_step(seed, 12, 12));
    const Cluster cluster = cluster_from(graph, 0);
    const remat::Prices here(sparse_prices(random, graph.num_stages()));
    SubsetTable table;
    std::vector<Hold> holds;
    const double least = cluster.solve(here, table, holds);
    const remat::Prices there(sparse_prices(random, graph.num_stages()));
    double other = least;
    for (const Hold& hold : holds) {
      if (hold.free) continue;
      const auto bytes = static_cast<double>(graph.value(hold.value).bytes);
      other += bytes * (there.over(hold.begin, hold.end) - here.over(hold.begin, hold.end));
    }
    std::vector<Hold> ignored;
    EXPECT_LE(cluster.solve(there, table, ignored), other + 1e-9) << "seed " << seed;
  }
}

}  // namespace
}  // namespace lowtide::bounds
