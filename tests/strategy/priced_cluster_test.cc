#include "strategy/bound/priced_cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "support/random_graph.h"

namespace lowtide {
namespace {

using testing::random_graph;

/// Prices of which one in `rarity` is not zero.
Prices sparse_prices(int stages, int rarity, std::mt19937_64& random) {
  std::vector<double> prices(stages);
  for (double& price : prices) {
    if (random() % rarity == 0) price = 1e-4 * static_cast<double>(random() % 1000);
  }
  return Prices(prices);
}

/// Neighbouring ops with at most `most` outputs in all, from `begin` on, where the next ones begin.
std::vector<BoundOp> taken(const std::vector<BoundOp>& ops, std::size_t& begin, std::size_t most) {
  std::vector<BoundOp> part;
  std::size_t values = 0;
  for (; begin < ops.size(); ++begin) {
    values += ops[begin].outputs.size();
    if (values > most) break;
    part.push_back(ops[begin]);
  }
  return part;
}

/// What holding these takes at the prices, beside what stages need in any case.
double price_of(const StageGraph& graph, const Prices& prices, const std::vector<Hold>& holds) {
  double sum = 0;
  for (const Hold& hold : holds) {
    const auto bytes = static_cast<double>(graph.value(hold.value).bytes);
    sum += hold.free ? 0 : bytes * prices.over(hold.begin, hold.end);
  }
  return sum;
}

/// Cluster goes through all subsets in all steps.
TEST(PricedCluster, CostsWhatTheProgramOverAllSubsetsDoes) {
  PricedCluster::Scratch scratch;
  Cluster::Scratch dense_scratch;
  int dropped = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    std::mt19937_64 random(seed);
    const StageGraph graph(seed % 2 == 0
                               ? StageGraph(random_graph(seed, {.ops = 10 + int(seed % 30)}))
                               : StageGraph(testing::random_step(seed, 14, 10)));
    const std::vector<bool> decided(graph.num_values(), true);
    const Gluing gluing = seed % 3 == 0 ? Gluing::loose : Gluing::strict;
    const std::vector<BoundOp> ops = contract(graph, decided, gluing).ops;
    for (std::size_t at = 0; at < ops.size();) {
      const std::vector<BoundOp> part = taken(ops, at, 3 + seed % 6);
      const Cluster dense(graph, part);
      const PricedCluster cluster(graph, part);
      for (int rarity : {1, 3, 12, 1000}) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed << ", rarity " << rarity);
        const Prices prices = sparse_prices(graph.num_stages(), rarity, random);
        std::vector<Hold> holds, dense_holds;
        const double cost = cluster.solve(prices, scratch, holds);
        ASSERT_NEAR(cost, dense.solve(prices, dense_scratch, dense_holds), 1e-9 * (1 + cost));
        const double held = price_of(graph, prices, holds);
        ASSERT_LE(held, cost * (1 + 1e-9) + 1e-9);
        dropped += held < cost * (1 - 1e-9);
      }
    }
  }
  EXPECT_GT(dropped, 300);  // something ran again
}

}  // namespace
}  // namespace lowtide
