// The bound for plans in any order, and its certificates, against the cheapest of all sequences.

#include "bounds/any_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "bounds/any_order_bound.h"
#include "bounds/certificate.h"
#include "bounds/price_bound.h"
#include "certify/accept.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "support/ask.h"
#include "support/brute_force.h"
#include "support/cheapest_sequence.h"
#include "support/random_graph.h"
#include "support/small_graphs.h"
#include "support/sweep.h"
#include "support/tiny_graphs.h"
#include "support/two_branches.h"

namespace lowtide::testing {
namespace {

constexpr double kRounding = 1e-9;

struct Tally {
  int bounds = 0;
  int above_keep_all = 0;  ///< prove that something must run again
  int tight = 0;           ///< equal to the least cost
  int fixed_above = 0;     ///< where the bound for the graph's order is too high for other orders
};

/// Whether the bound for the graph's order exceeds the cost of some plan in another order.
bool fixed_order_is_above(const Graph& graph, Bytes budget, double least) {
  const remat::StageGraph stages(graph);
  bounds::PriceBound bound(stages, budget);
  for (int values : {1, 3}) bound.raise(values, bounds::Gluing::loose, 1e4, Control());
  return bound.infeasible() ? least < kNever : bound.value() > least + 1e-6;
}

/// The bound along a random chain, and its certificate, must not exceed the cheapest sequence.
void check_random_chain(const Graph& graph, Bytes budget, double least, std::mt19937_64& random,
                        Tally& tally) {
  const remat::StageGraph stages(graph);
  const ordering::Precedence precedence(graph, stages, ordering::Orders::valid);
  std::vector<double> weights(stages.num_stages());
  for (double& weight : weights) weight = static_cast<double>(random() % 4);
  const bounds::OpChain chain = bounds::heaviest_chain(precedence, weights);
  const bounds::ChainedStages along = bounds::along_chain(stages, precedence, chain);
  bounds::PriceBound bound(along.graph, budget, along.on_chain);
  if (bound.infeasible()) {
    EXPECT_EQ(least, kNever);
    return;
  }
  for (int values : {1, 3}) bound.raise(values, bounds::Gluing::loose, 1e4, Control());
  EXPECT_LE(bound.value(), least + kRounding);

  certify::Certificate proof = bounds::certificate_of(graph, along.graph, bound, budget);
  proof.chain.emplace();
  for (int i : chain) proof.chain->push_back(stages.stage(i).op);
  const auto verdict = certify::proved_bound(graph, proof);
  ASSERT_TRUE(is_accepted(verdict));
  EXPECT_LE(std::get<double>(verdict), least + kRounding);
  EXPECT_GE(std::get<double>(verdict), bound.value() * (1 - 1e-8));
  ++tally.bounds;
  tally.above_keep_all += least < kNever && bound.value() > stages.required_cost() + 1e-6;
  tally.tight += least < kNever && bound.value() > least - 1e-6;
}

/// Checks every budget down to the first that is too small for any plan.
void check_graph(const Graph& graph, std::mt19937_64& random, Tally& tally) {
  const CheapestSequence cheapest(graph);
  for (Bytes budget = keep_all_reference(graph).peak_bytes; budget >= 0; --budget) {
    SCOPED_TRACE(::testing::Message() << graph.name() << " within " << budget);
    const double least = cheapest.cost(budget, Sequences::any_order);
    tally.fixed_above += fixed_order_is_above(graph, budget, least);
    for (int i = 0; i < 3; ++i) check_random_chain(graph, budget, least, random, tally);
    if (least == kNever || ::testing::Test::HasFatalFailure()) return;
  }
}

TEST(AnyOrderBound, IsBelowEverySequenceOfEverySmallGraph) {
  std::mt19937_64 random(1);
  Tally tally;
  std::size_t turn = 0;
  for (int ops = 1; ops <= 5; ++ops) {
    for (const Shape& shape : shapes(ops)) {
      ++turn;
      for (std::size_t p = 0; p < patterns().size(); ++p) {
        if (ops == 5 && p != turn % patterns().size()) continue;
        check_graph(graph_of(shape, patterns()[p]), random, tally);
        ASSERT_FALSE(HasFatalFailure());
      }
    }
  }
  RecordProperty("bounds", tally.bounds);
  RecordProperty("above_keep_all", tally.above_keep_all);
  RecordProperty("tight", tally.tight);
  EXPECT_GT(tally.above_keep_all, 50);
}

/// With several outputs, workspaces, in-place writes, and ops that run once.
TEST(AnyOrderBound, IsBelowEverySequenceOfRandomGraphs) {
  std::mt19937_64 random(2);
  Tally tally;
  for (std::uint64_t seed = 0; tally.bounds < 3000; ++seed) {
    GraphData data = random_graph(seed, {.ops = 7, .views = false, .effects = false}).data();
    const auto is_value = [](const Tensor& t) { return t.kind == Kind::value; };
    if (std::ranges::count_if(data.tensors, is_value) > 10) continue;
    if (seed % 2 == 0) data.ops[seed % data.ops.size()].recomputable = false;
    const Graph graph(std::move(data));
    const CheapestSequence cheapest(graph);
    for (double share : {0.9, 0.8, 0.7, 0.6, 0.5}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", share " << share);
      const Bytes peak = keep_all_reference(graph).peak_bytes;
      const auto budget = static_cast<Bytes>(share * static_cast<double>(peak));
      const double least = cheapest.cost(budget, Sequences::any_order);
      tally.fixed_above += fixed_order_is_above(graph, budget, least);
      for (int i = 0; i < 3; ++i) check_random_chain(graph, budget, least, random, tally);
      ASSERT_FALSE(HasFatalFailure());
      if (least == kNever) break;
    }
  }
  RecordProperty("above_keep_all", tally.above_keep_all);
  RecordProperty("tight", tally.tight);
  RecordProperty("fixed_above", tally.fixed_above);
  EXPECT_GT(tally.above_keep_all, 100);
  EXPECT_GT(tally.fixed_above, 5);
}

/// With views and writes, after which reruns of readers are too late: against all sets of reruns in
/// the graph's order.
TEST(AnyOrderBound, IsBelowTheBestSetOfReruns) {
  std::mt19937_64 random(3);
  TinyGraphs graphs(500);
  Tally tally;
  for (int i = 0; i < 400; ++i) {
    const Tiny tiny = graphs.next();
    SCOPED_TRACE(tiny.graph.name());
    for (double share : {0.9, 0.75, 0.6}) {
      const auto budget = static_cast<Bytes>(share * static_cast<double>(tiny.plans.front().peak));
      const double least = least_cost(tiny.plans, &Candidate::in_place_peak, budget);
      check_random_chain(tiny.graph, budget, least, random, tally);
      ASSERT_FALSE(HasFatalFailure());
    }
  }
  RecordProperty("above_keep_all", tally.above_keep_all);
  EXPECT_GT(tally.above_keep_all, 10);
}

TEST(AnyOrderBound, IsThatOfTheOnlyOrderOfAChain) {
  const Graph graph = chain_graph(12);
  const remat::StageGraph stages(graph);
  const Bytes budget = keep_all_reference(graph).peak_bytes / 2;
  bounds::PriceBound fixed(stages, budget);
  bounds::raise_in_rounds(fixed, 1e6, Control(), Control());
  const auto proof = bounds::any_order_bound(
      graph, stages, bounds::certificate_of(graph, stages, fixed, budget), 1e8, Control());
  EXPECT_GT(fixed.value(), stages.required_cost() + 1);
  EXPECT_NEAR(proof->lower_bound, fixed.value(), 1e-2 * fixed.value());
  EXPECT_TRUE(is_accepted(certify::proved_bound(graph, *proof)));
}

/// Two branches that any order may mix: in the graph's order both values are held, in another none.
TEST(AnyOrderBound, IsBelowAPlanThatAnotherOrderMakesCheaper) {
  const Graph graph = two_branches();
  const remat::StageGraph stages(graph);
  const Bytes budget = 102;
  bounds::PriceBound fixed(stages, budget);
  bounds::raise_in_rounds(fixed, 1e5, Control(), Control());
  const auto proof = bounds::any_order_bound(
      graph, stages, bounds::certificate_of(graph, stages, fixed, budget), 1e6, Control());
  EXPECT_LE(proof->lower_bound, 5);
  EXPECT_GE(proof->lower_bound, 5 * (1 - 1e-9));
}

/// A plan in another order than the graph's comes with the bound for any, and its proof.
TEST(AnyOrderBound, ComesWithWhatSearchFindsInAnotherOrder) {
  int any_order = 0, says_more = 0;
  for (std::uint64_t seed = testing::sweep(0u, 28u); seed < 40; ++seed) {
    const Graph graph =
        random_graph(seed, {.ops = 40, .views = false, .random_ops = false, .effects = false});
    SCOPED_TRACE(seed);
    const double required = remat::StageGraph(graph).required_cost();
    const strategy::Decision decision = ask("search", graph, share_of_peak(graph, 0.7),
                                            {{"moves", 5}, {"bound", 0.003}, {"order", 0.1}});
    if (decision.bound_model != "any-order") continue;
    ++any_order;
    ASSERT_NE(decision.certificate, nullptr);
    EXPECT_TRUE(decision.certificate->chain);
    EXPECT_EQ(decision.certificate->lower_bound, *decision.lower_bound);
    const auto verdict = certify::proved_bound(graph, *decision.certificate);
    ASSERT_TRUE(is_accepted(verdict));
    EXPECT_GE(std::get<double>(verdict), *decision.lower_bound * (1 - 1e-9));
    EXPECT_LE(*decision.lower_bound, lower(graph, decision.executions).cost * (1 + 1e-9));
    says_more += *decision.lower_bound > required * (1 + 1e-9);
  }
  RecordProperty("any_order", any_order);
  RecordProperty("says_more", says_more);
  EXPECT_GT(says_more, 0);
}

/// The heaviest of chains through two paths, without ops of weight 0.
TEST(HeaviestChain, TakesTheHeavierPath) {
  const ordering::Precedence diamond({{}, {0}, {0}, {1, 2}, {3}});
  EXPECT_EQ(bounds::heaviest_chain(diamond, std::vector<double>{1, 2, 3, 0, 1, 9}),
            (bounds::OpChain{0, 2, 4}));
  EXPECT_EQ(bounds::heaviest_chain(diamond, std::vector<double>{0, 2, 1, 0, 0, 0}),
            (bounds::OpChain{1}));
  EXPECT_EQ(bounds::heaviest_chain(diamond, std::vector<double>(6)), bounds::OpChain{});
}

}  // namespace
}  // namespace lowtide::testing
