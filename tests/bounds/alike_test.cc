#include "bounds/alike.h"

#include <gtest/gtest.h>

#include <vector>

#include "bounds/price_bound.h"
#include "support/random_graph.h"

namespace lowtide::bounds {
namespace {

std::vector<Cluster> clusters_of(const remat::StageGraph& graph, std::size_t ops_each) {
  const std::vector<bool> all(static_cast<std::size_t>(graph.num_values()), true);
  const Contraction contraction = contract(graph, all, Gluing::strict);
  std::vector<Cluster> clusters;
  for (std::size_t at = 0; at + ops_each <= contraction.ops.size(); at += ops_each) {
    clusters.emplace_back(graph, std::span(contraction.ops).subspan(at, ops_each));
  }
  share_programs(clusters);
  return clusters;
}

/// A price in the middle, where all layers of a chain are held.
remat::Prices price_in_the_middle(const remat::StageGraph& graph) {
  std::vector<double> price(static_cast<std::size_t>(graph.num_stages()));
  price[price.size() / 2] = 0.01;
  return remat::Prices(std::move(price));
}

TEST(Alike, EqualLayersAreOfFewKinds) {
  const remat::StageGraph graph(testing::chain_graph(40));
  const std::vector<Cluster> clusters = clusters_of(graph, 1);
  const Kinds kinds = kinds_at(clusters, price_in_the_middle(graph));
  ASSERT_EQ(kinds.of.size(), clusters.size());
  EXPECT_LT(kinds.first.size(), clusters.size() / 3);
}

/// A cluster that differs from others in anything that its solution depends on must be of another
/// kind.
TEST(Alike, ClustersOfOneKindHaveEqualSolutions) {
  int copies = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const remat::StageGraph graph(seed % 2 == 0 ? testing::random_step(seed, 30, 30)
                                                : testing::chain_graph(static_cast<int>(seed)));
    const std::vector<Cluster> clusters = clusters_of(graph, 1 + seed % 3);
    const remat::Prices prices = price_in_the_middle(graph);
    const Kinds kinds = kinds_at(clusters, prices);
    SubsetTable table;
    const auto solved = [&](int c) {
      std::vector<Hold> holds;
      const double cost = clusters[static_cast<std::size_t>(c)].solve(prices, table, holds);
      return std::pair(cost, holds.size());
    };
    for (int c = 0; c < static_cast<int>(clusters.size()); ++c) {
      const int first =
          kinds.first[static_cast<std::size_t>(kinds.of[static_cast<std::size_t>(c)])];
      EXPECT_EQ(solved(c), solved(first));
      copies += c != first;
    }
  }
  EXPECT_GT(copies, 100);
}

}  // namespace
}  // namespace lowtide::bounds
