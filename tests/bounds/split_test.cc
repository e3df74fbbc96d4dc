// Bounds by cases, against all plans of small graphs, the checker of certificates, and a recurrent
// step whose states a single bound for all plans takes for granted.

#include "bounds/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "bounds/certificate.h"
#include "bounds/price_bound.h"
#include "certify/accept.h"
#include "plan/lower.h"
#include "support/ask.h"
#include "support/recurrent_step.h"
#include "support/tiny_graphs.h"

namespace lowtide::testing {
namespace {

/// Values that are the only output of their op and have a reader.
std::vector<int> whole_values(const remat::StageGraph& graph) {
  std::vector<int> values;
  for (int v = 0; v < graph.num_values(); ++v) {
    const bool is_whole = graph.stage(graph.value(v).producer).outputs.size() == 1;
    if (is_whole && !graph.value(v).readers.empty()) values.push_back(v);
  }
  return values;
}

/// The smallest peaks of all plans: there most reruns are needed.
std::vector<Bytes> smallest_peaks(const Tiny& tiny) {
  std::set<Bytes> peaks;
  for (const Candidate& plan : tiny.plans) peaks.insert(plan.in_place_peak);
  std::vector<Bytes> smallest(peaks.begin(), peaks.end());
  smallest.resize(std::min<std::size_t>(smallest.size(), 4));
  return smallest;
}

/// The bound on the plans of one case, with its proof.
double bound_of_case(const Tiny& tiny, int value, int absent, Bytes budget,
                     certify::Certificate::Split& split) {
  const remat::StageGraph of_case = bounds::stages_of_case(tiny.stages, value, absent);
  bounds::PriceBound bound(of_case, budget);
  for (int values : {1, 5}) bound.raise(values, bounds::Gluing::loose, 1e4, Control());
  split.cases.push_back({absent == kNone ? kNone : tiny.stages.stage(absent).op,
                         bounds::proof_of(tiny.graph, of_case, bound)});
  return bound.infeasible() ? kNever : bound.value();
}

TEST(Split, IsBelowEveryPlanWhateverTheValue) {
  TinyGraphs graphs(3000);
  int above_keep_all = 0;
  for (int i = 0; i < 40; ++i) {
    const Tiny tiny = graphs.next();
    SCOPED_TRACE(tiny.graph.name());
    for (Bytes budget : smallest_peaks(tiny)) {
      const double optimum = least_cost(tiny.plans, &Candidate::in_place_peak, budget);
      const bounds::PriceBound undivided(tiny.stages, budget);
      for (int value : whole_values(tiny.stages)) {
        certify::Certificate::Split split{tiny.stages.value(value).tensor, {}};
        double least = kNever;
        for (int absent : bounds::absences(tiny.stages, value)) {
          least = std::min(least, bound_of_case(tiny, value, absent, budget, split));
        }
        ASSERT_LE(least, optimum * (1 + 1e-9));
        certify::Certificate certificate =
            bounds::certificate_of(tiny.graph, tiny.stages, undivided, budget);
        certificate.split = std::move(split);
        const auto verdict = certify::proved_bound(tiny.graph, certificate);
        ASSERT_TRUE(is_accepted(verdict));
        EXPECT_GE(std::get<double>(verdict), least * (1 - 1e-8));
        above_keep_all += least > tiny.plans.front().cost * (1 + 1e-9);
      }
    }
  }
  EXPECT_GT(above_keep_all, 30);
}

/// One bound for all plans takes the states for granted when the stack is made again.
class RecurrentStep : public ::testing::Test {
 protected:
  static constexpr OpId kStack = 20;

  Graph graph_ = recurrent_step();
  remat::StageGraph stages_ = remat::StageGraph(graph_);
};

TEST_F(RecurrentStep, IsDividedByItsStack) {
  const Bytes budget = share_of_peak(graph_, 0.7);
  bounds::PriceBound undivided(stages_, budget);
  bounds::raise_in_rounds(undivided, 1e6, Control(), Control());
  const auto value = bounds::value_to_split(stages_, undivided.prices());
  ASSERT_TRUE(value);
  EXPECT_EQ(stages_.value(*value).producer, kStack);
  EXPECT_THAT(bounds::absences(stages_, *value), ::testing::ElementsAre(kNone, kStack + 2));

  const auto divided = bounds::split_bound(graph_, stages_, budget, undivided.prices(),
                                           undivided.value(), 1e6, Control());
  ASSERT_TRUE(divided);
  const double cost = lower(graph_, ask("search", graph_, budget).executions).cost;
  EXPECT_LE(divided->value, cost);
  EXPECT_LT(cost - divided->value, 0.25 * (cost - undivided.value()));

  certify::Certificate certificate = bounds::certificate_of(graph_, stages_, undivided, budget);
  certificate.split = divided->proof;
  const auto verdict = certify::proved_bound(graph_, certificate);
  ASSERT_TRUE(is_accepted(verdict));
  EXPECT_NEAR(std::get<double>(verdict), divided->value, 1e-6 * divided->value);
}

TEST_F(RecurrentStep, IsNotDividedWhereThatProvesNoMore) {
  const Bytes budget = share_of_peak(graph_, 0.7);
  bounds::PriceBound bound(stages_, budget);
  bounds::raise_in_rounds(bound, 1e6, Control(), Control());
  EXPECT_FALSE(bounds::split_bound(graph_, stages_, budget, bound.prices(), 10 * bound.value(), 1e6,
                                   Control()));
  const remat::Prices free(std::vector<double>(stages_.num_stages()));
  EXPECT_FALSE(bounds::value_to_split(stages_, free));
}

}  // namespace
}  // namespace lowtide::testing
