#include "bounds/moment_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <variant>
#include <vector>

#include "bounds/certificate.h"
#include "certify/accept.h"
#include "certify/check.h"
#include "support/random_graph.h"
#include "support/tiny_graphs.h"

namespace lowtide::bounds {
namespace {

/// Raised with clusters of up to 14 values, and a price at one stage only.
PriceBound bound_at(const remat::StageGraph& graph, Bytes budget, int stage) {
  std::vector<bool> priced(static_cast<std::size_t>(graph.num_stages()));
  priced[static_cast<std::size_t>(stage)] = true;
  PriceBound bound(graph, budget, priced);
  for (int values : {1, 14}) bound.raise(values, Gluing::strict, 1e5, Control());
  return bound;
}

TEST(MomentBound, IsAtLeastThatOfClustersAtTheSameStage) {
  int compared = 0;
  int higher = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    const remat::StageGraph graph(testing::random_step(seed, 20, 20));
    const std::vector<Bytes> profile = remat::keep_all_profile(graph);
    const auto fullest = std::ranges::max_element(profile);
    const int stage = static_cast<int>(fullest - profile.begin());
    const PriceBound clusters = bound_at(graph, *fullest * 7 / 10, stage);
    if (clusters.infeasible() || clusters.value() <= graph.required_cost()) continue;
    const MomentBound moment = moment_bound(graph, clusters, Control());
    EXPECT_EQ(moment.stage, stage);
    EXPECT_GE(moment.value, clusters.value() * (1 - 1e-8));
    ++compared;
    higher += moment.value > clusters.value() * (1 + 1e-6);
  }
  EXPECT_GT(compared, 20);
  EXPECT_GT(higher, 5);
}

TEST(MomentBound, IsBelowEveryPlanAndHasAProof) {
  testing::TinyGraphs graphs(3000);
  int above_keep_all = 0;
  for (int i = 0; i < 60; ++i) {
    const testing::Tiny tiny = graphs.next();
    SCOPED_TRACE(tiny.graph.name());
    std::set<Bytes> peaks;
    for (const testing::Candidate& plan : tiny.plans) peaks.insert(plan.in_place_peak);
    for (const Bytes budget : peaks) {
      const double optimum =
          testing::least_cost(tiny.plans, &testing::Candidate::in_place_peak, budget);
      for (int stage = 0; stage < tiny.stages.num_stages(); ++stage) {
        const PriceBound clusters = bound_at(tiny.stages, budget, stage);
        const MomentBound moment = moment_bound(tiny.stages, clusters, Control());
        ASSERT_LE(moment.value, optimum * (1 + 1e-9)) << "stage " << stage;
        above_keep_all += moment.value > tiny.plans.front().cost * (1 + 1e-9);
        if (moment.stage == kNone) continue;
        const auto proof = shared_certificate(tiny.graph, tiny.stages, moment, budget);
        EXPECT_TRUE(testing::is_accepted(certify::proved_bound(tiny.graph, *proof)));
      }
    }
  }
  EXPECT_GT(above_keep_all, 20);
}

TEST(MomentBound, OfALargeGraphIsProvedByOneCluster) {
  const Graph graph = testing::random_step(7, 150, 150);
  const remat::StageGraph stages(graph);
  const Bytes budget = remat::keep_all_peak(stages) * 7 / 10;
  PriceBound clusters(stages, budget);
  clusters.raise(4, Gluing::strict, 1e5, Control());
  const MomentBound moment = moment_bound(stages, clusters, Control());
  ASSERT_GT(moment.value, stages.required_cost() * (1 + 1e-6));
  const auto proof = shared_certificate(graph, stages, moment, budget);
  const auto verdict = certify::proved_bound(graph, *proof);
  ASSERT_TRUE(testing::is_accepted(verdict));
  EXPECT_NEAR(std::get<double>(verdict), moment.value, 1e-8 * moment.value);
}

}  // namespace
}  // namespace lowtide::bounds
