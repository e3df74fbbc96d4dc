// Lower sets and the program over them against all subsets and all chains of small graphs.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "plan/lower.h"
#include "strategy/lower_sets/family.h"
#include "strategy/lower_sets/program.h"
#include "support/ask.h"
#include "support/brute_force.h"
#include "support/random_graph.h"

namespace lowtide::strategy {
namespace {

using testing::kNever;
using testing::random_graph;

bool is_lower(const remat::StageGraph& graph, const lower_sets::LowerSet& set) {
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (!set[i]) continue;
    for (int v : graph.stage(static_cast<int>(i)).inputs) {
      if (!set[graph.value(v).producer]) return false;
    }
  }
  return true;
}

TEST(LowerSets, AreAllFoundOnce) {
  int graphs = 0;
  for (std::uint64_t seed = 0; graphs < 40; ++seed) {
    const remat::StageGraph graph(random_graph(seed, {.ops = 16}));
    const int end = forward_end(graph);
    if (end < 3 || end > 11) continue;
    ++graphs;
    std::vector<lower_sets::LowerSet> expected;
    for (unsigned bits = 0; bits < 1u << end; ++bits) {
      lower_sets::LowerSet set(end);
      for (int i = 0; i < end; ++i) set[i] = bits >> i & 1;
      if (is_lower(graph, set)) expected.push_back(set);
    }
    auto all = lower_sets::all_lower_sets(graph, end, static_cast<int>(expected.size()));
    ASSERT_TRUE(all);
    ASSERT_FALSE(lower_sets::all_lower_sets(graph, end, static_cast<int>(expected.size()) - 1));
    const std::vector<lower_sets::LowerSet> pruned =
        lower_sets::pruned_lower_sets(graph, end, 1000);
    EXPECT_EQ(pruned.front(), lower_sets::LowerSet(end));
    EXPECT_EQ(pruned.back(), lower_sets::LowerSet(end, true));
    for (const lower_sets::LowerSet& set : pruned) EXPECT_TRUE(std::ranges::count(*all, set));
    EXPECT_EQ(lower_sets::pruned_lower_sets(graph, end, 2).size(), 2u);
    std::ranges::sort(*all);
    std::ranges::sort(expected);
    ASSERT_EQ(*all, expected) << "seed " << seed;
  }
}

/// Tries every chain of sets.
class AllChains {
 public:
  AllChains(const lower_sets::LowerSetProgram& program, Bytes bytes)
      : program_(program), bytes_(bytes) {
    extend(0, 0, 0);
  }
  double least_cost() const { return least_; }

 private:
  void extend(int set, Bytes cached, double cost) {
    if (set == program_.num_sets() - 1) least_ = std::min(least_, cost);
    for (int to = set + 1; to < program_.num_sets(); ++to) {
      const auto& next = program_.segment(set, to);
      if (!next.possible || cached + next.needed > bytes_) continue;
      extend(to, cached + next.cached, cost + next.cost);
    }
  }

  const lower_sets::LowerSetProgram& program_;
  Bytes bytes_;
  double least_ = kNever;
};

TEST(LowerSetProgram, FindsTheCheapestOfAllChains) {
  int answers = 0, none = 0;
  for (std::uint64_t seed = 0; answers < 200; ++seed) {
    const Graph source = random_graph(seed, {.ops = 18});
    const remat::StageGraph graph(source);
    const int end = forward_end(graph);
    auto family = lower_sets::all_lower_sets(graph, end, 14);
    if (!family || family->size() < 5) continue;
    double forward_cost = 0;  // a whole number, so that a slot is a unit of time
    for (int i = 0; i < end; ++i) forward_cost += graph.stage(i).cost;
    const auto kept = kept_in_any_case(graph, end, std::vector<bool>(graph.num_values()));
    const lower_sets::LowerSetProgram program(graph, end, kept, *family,
                                              static_cast<int>(forward_cost), Control());
    for (double share : {1.0, 0.6, 0.4, 0.2}) {
      const Bytes bytes =
          static_cast<Bytes>(share * static_cast<double>(remat::keep_all_peak(graph)));
      const std::vector<int> chain = program.cheapest(bytes);
      const double least = AllChains(program, bytes).least_cost();
      if (chain.empty()) {
        ASSERT_EQ(least, kNever);
        ++none;
        continue;
      }
      ++answers;
      double cost = 0;
      for (std::size_t k = 1; k < chain.size(); ++k) {
        cost += program.segment(chain[k - 1], chain[k]).cost;
      }
      ASSERT_EQ(cost, least) << "seed " << seed << " share " << share;
      const auto order = checkpointed_order(graph, end, program.checkpoints(chain));
      ASSERT_LE(lower(source, order).cost, graph.required_cost() + cost + 1e-6);
    }
  }
  EXPECT_GT(none, 10);
}

TEST(LowerSets, CutUniformChainsEvenly) {
  // With sqrt(n) segments of sqrt(n) layers a chain of n needs about 2 sqrt(n) of memory.
  const Graph graph = testing::chain_graph(100);
  const Bytes layer = graph.tensor(0).bytes;
  EXPECT_LE(*testing::ask("lower-sets", graph, 0).smallest_peak, 24 * layer);
}

}  // namespace
}  // namespace lowtide::strategy
