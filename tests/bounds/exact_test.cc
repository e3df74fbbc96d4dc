// The program over held sets against all sets of reruns of small graphs, and the proofs of the
// search with it.

#include <gtest/gtest.h>

#include <random>

#include "bounds/held_sets.h"
#include "graph/io.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "strategy/search/annealer.h"
#include "support/ask.h"
#include "support/random_graph.h"
#include "support/small_graphs.h"
#include "support/tiny_graphs.h"

namespace lowtide::bounds {
namespace {

using testing::all_plans;
using testing::allowed_events;
using testing::ask;
using testing::Candidate;
using testing::kNever;
using testing::graph_of;
using testing::least_cost;
using testing::Pattern;
using testing::patterns;
using testing::Shape;
using testing::shapes;
using testing::Tiny;
using testing::TinyGraphs;

/// The inputs of a HeldSetProgram.
struct Exact {
  PriceBound bound;
  CompletionBound completion;
  HeldSetProgram program;

  Exact(const remat::StageGraph& stages, Bytes budget, int rounds, Bytes free_bytes = 0)
      : bound(raised(stages, budget, rounds)),
        completion(stages, bound),
        program(stages, budget, completion, free_bytes) {}

  static PriceBound raised(const remat::StageGraph& stages, Bytes budget, int rounds) {
    PriceBound bound(stages, budget);
    for (int k = 0; k < rounds; ++k) {
      bound.raise(1 + 4 * k, k % 2 == 0 ? Gluing::loose : Gluing::strict, 1e4, Control());
    }
    return bound;
  }
};

constexpr HeldSetEffort kAny{.cost_below = 1e12, .states = 1'000'000};

Plan lowered(const Graph& graph, const std::vector<OpId>& executions) {
  return with_in_place(graph, lower(graph, executions));
}

std::vector<Bytes> budgets_of(const Tiny& tiny) {
  const auto least = *std::ranges::min_element(tiny.plans, {}, &Candidate::in_place_peak);
  const Bytes keep_all = tiny.plans.front().in_place_peak;
  return {least.in_place_peak - 1, least.in_place_peak,
          least.in_place_peak + (keep_all - least.in_place_peak) / 3, keep_all - 1};
}

/// Whether the cheapest plan has reruns.
bool expect_cheapest(const Tiny& tiny, Bytes budget, int rounds) {
  SCOPED_TRACE(::testing::Message() << tiny.graph.name() << " within " << budget);
  const double optimum = least_cost(tiny.plans, &Candidate::in_place_peak, budget);
  if (PriceBound(tiny.stages, budget).infeasible()) {
    EXPECT_EQ(optimum, kNever);
    return false;
  }
  Exact exact(tiny.stages, budget, rounds);
  const HeldSetAnswer answer = exact.program.run(kAny, Control());
  EXPECT_TRUE(answer.complete);
  EXPECT_TRUE(answer.executions || optimum == kNever);
  if (!answer.executions) return false;
  // Sets of reruns cannot run an op twice in a stage, or in another order; the program can.
  const Plan plan = lowered(tiny.graph, *answer.executions);
  EXPECT_LE(plan.peak_bytes, budget);
  EXPECT_LE(plan.cost, optimum * (1 + 1e-9));
  EXPECT_NEAR(answer.bound, plan.cost, 1e-6);
  // Just below its cost there must be no plan.
  const HeldSetAnswer below = exact.program.run({plan.cost * (1 - 1e-6), kAny.states}, Control());
  EXPECT_TRUE(below.complete);
  EXPECT_FALSE(below.executions);
  return plan.cost > tiny.stages.required_cost();
}

TEST(HeldSetProgram, FindsTheCheapestPlanOfSmallGraphs) {
  TinyGraphs graphs(0, false);
  int rerunning = 0;
  for (int i = 0; i < 400; ++i) {
    const Tiny tiny = graphs.next();
    for (Bytes budget : budgets_of(tiny)) rerunning += expect_cheapest(tiny, budget, i % 4);
  }
  EXPECT_GT(rerunning, 300);
}

TEST(HeldSetProgram, FindsTheCheapestPlanOfEveryShape) {
  int rerunning = 0;
  for (const Pattern& pattern : patterns()) {
    if (pattern.in_place) continue;
    for (const Shape& shape : shapes(4)) {
      Graph graph = graph_of(shape, pattern);
      remat::StageGraph stages(graph);
      std::vector<Candidate> plans = all_plans(graph, stages, allowed_events(stages));
      const Tiny tiny{std::move(graph), std::move(stages), std::move(plans)};
      for (Bytes budget : budgets_of(tiny)) rerunning += expect_cheapest(tiny, budget, 2);
    }
  }
  EXPECT_GT(rerunning, 50);
}

TEST(HeldSetProgram, BoundsEveryPlanWithWritesInPlaceAndFreeValues) {
  TinyGraphs graphs(700);
  for (int i = 0; i < 100; ++i) {
    const Tiny tiny = graphs.next();
    for (Bytes budget : budgets_of(tiny)) {
      SCOPED_TRACE(::testing::Message() << tiny.graph.name() << " within " << budget);
      const double optimum = least_cost(tiny.plans, &Candidate::in_place_peak, budget);
      if (optimum == kNever) continue;
      for (Bytes free_bytes : {0, 3}) {
        Exact exact(tiny.stages, budget, i % 4, free_bytes);
        const HeldSetAnswer answer = exact.program.run(kAny, Control());
        ASSERT_TRUE(answer.complete && answer.executions);
        EXPECT_LE(answer.bound, optimum * (1 + 1e-9));
      }
    }
  }
}

/// Steps too large to try all sets of reruns, with the cheapest plan of annealing.
TEST(HeldSetProgram, NeverProvesMoreThanAnnealingFindsOnLargerGraphs) {
  int rerunning = 0;
  for (const std::uint64_t seed : {48, 75, 179, 184, 255, 1406, 10485, 20938, 1, 2, 3, 4, 5, 6,
                                   7}) {
    std::mt19937_64 random(seed);
    const auto up_to = [&](int most) { return 1 + static_cast<int>(random() % most); };
    const Graph graph = seed % 3 == 0
                            ? testing::random_graph(
                                   seed, {.ops = 13, .views = false, .in_place = false})
                            : testing::random_step(seed, 1 + up_to(7), up_to(6));
    const remat::StageGraph stages(graph);
    const Bytes floor = structural_floor(graph).bytes;
    for (double share : {0.15, 0.4, 0.7}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << " share " << share);
      const auto above = share * static_cast<double>(remat::keep_all_peak(stages) - floor);
      const Bytes budget = floor + static_cast<Bytes>(above);
      if (PriceBound(stages, budget).infeasible()) continue;
      const double unit = stages.required_cost() / stages.num_stages();
      strategy::search::Annealer annealer(stages, budget, strategy::search::typical_price(stages),
                                          seed);
      annealer.run({20'000, 10 * unit, 0.002 * unit}, Control());
      if (!annealer.any_fits()) continue;
      annealer.load(annealer.best());
      annealer.run({20'000, unit, 0.002 * unit}, Control());
      rerunning += annealer.best_cost() > stages.required_cost() * (1 + 1e-9);
      Exact exact(stages, budget, static_cast<int>(seed % 3));
      const HeldSetAnswer answer = exact.program.run({kAny.cost_below, 300'000}, Control());
      EXPECT_LE(answer.bound, annealer.best_cost() * (1 + 1e-8));
    }
  }
  EXPECT_GT(rerunning, 15);
}

/// 50 values of 10 bytes are alive when an op needs the memory of 25: any 25 may be dropped.
Graph with_many_sets_to_drop() {
  GraphData data;
  data.name = "many sets";
  std::vector<TensorId> values;
  for (int i = 0; i < 50; ++i) {
    data.tensors.push_back(testing::value("v", 10));
    data.ops.push_back(testing::op("make", {}, {i}));
    values.push_back(i);
  }
  data.tensors.push_back(testing::value("large", 250));
  data.tensors.push_back(testing::value("small", 1));
  data.tensors.push_back(testing::value("sum", 1));
  data.ops.push_back(testing::op("make large", {}, {50}));
  data.ops.push_back(testing::op("take large", {50}, {51}));
  values.push_back(51);
  data.ops.push_back(testing::op("add", values, {52}));
  data.outputs = {52};
  return Graph(std::move(data));
}

TEST(HeldSetProgram, EndsWithinItsLimitsInTheMiddleOfAnExpansion) {
  const Graph graph = with_many_sets_to_drop();
  const remat::StageGraph stages(graph);
  Exact exact(stages, 502, 1);
  const Control control = Control::by_work(0.05);
  EXPECT_FALSE(exact.program.run(kAny, control).complete);
  EXPECT_TRUE(control.should_stop());
  const HeldSetAnswer answer = exact.program.run({kAny.cost_below, 1000}, Control());
  EXPECT_FALSE(answer.complete);
  EXPECT_LT(answer.states, 10'000);
}

TEST(HeldSetProgram, KeepsAValidBoundWhenItStopsEarly) {
  TinyGraphs graphs(1500, false);
  for (int i = 0; i < 40; ++i) {
    const Tiny tiny = graphs.next();
    const Bytes budget = budgets_of(tiny)[1];
    const double optimum = least_cost(tiny.plans, &Candidate::in_place_peak, budget);
    Exact exact(tiny.stages, budget, 2);
    for (std::int64_t states : {0, 3, 10, 30}) {
      const HeldSetAnswer answer = exact.program.run({kAny.cost_below, states}, Control());
      EXPECT_LE(answer.bound, optimum * (1 + 1e-9));
      EXPECT_TRUE(answer.complete || !answer.executions);
    }
  }
}

TEST(CompletionBound, IsTheBoundAtTheBeginning) {
  const Graph graph = testing::chain_graph(20);
  const remat::StageGraph stages(graph);
  const Bytes budget = testing::share_of_peak(graph, 0.6);
  const Exact exact(stages, budget, 3);
  EXPECT_NEAR(stages.required_cost() + exact.completion.least_cost(0, {}), exact.bound.value(),
              1e-6 * exact.bound.value());
}

TEST(Search, ProvesItsPlansOfSmallNetworks) {
  const std::vector<std::pair<std::string, double>> cases{
      {"checkmate-vgg16", 0.85},
      {"checkmate-vgg19", 0.85},
      {"chain-20s0", 0.6},
      {"chain-20s3", 0.8}};
  for (const auto& [name, share] : cases) {
    SCOPED_TRACE(name);
    const Graph graph = read_graph(LOWTIDE_SOURCE_DIR "/data/graphs/" + name + ".json");
    const Bytes budget = testing::share_of_peak(graph, share);
    const strategy::Decision decision = ask("search", graph, budget, {{"order", 0}});
    EXPECT_EQ(decision.outcome, strategy::Outcome::optimal);
    const double cost = lower(graph, decision.executions).cost;
    EXPECT_NEAR(*decision.lower_bound, cost, 1e-8 * cost);
    const strategy::Decision unproved =
        ask("search", graph, budget, {{"order", 0}, {"prove", 0}, {"moves", 100}, {"bound", 0.01}});
    EXPECT_EQ(unproved.outcome, strategy::Outcome::feasible);
    EXPECT_LT(*unproved.lower_bound, cost * (1 - 1e-6));
    EXPECT_GE(lower(graph, unproved.executions).cost, cost * (1 - 1e-8));
  }
}

TEST(Search, NeverProvesMoreThanIsTrue) {
  TinyGraphs graphs(3000);
  int optimal = 0;
  for (int i = 0; i < 15; ++i) {
    const Tiny tiny = graphs.next();
    for (Bytes budget : budgets_of(tiny)) {
      SCOPED_TRACE(::testing::Message() << tiny.graph.name() << " within " << budget);
      const double optimum = least_cost(tiny.plans, &Candidate::in_place_peak, budget);
      const strategy::Decision decision =
          ask("search", tiny.graph, budget,
              {{"order", 0}, {"moves", 1}, {"bound", 1e-4}, {"prove", 100}});
      if (decision.executions.empty()) continue;
      const double cost = lower(tiny.graph, decision.executions).cost;
      EXPECT_LE(*decision.lower_bound, cost * (1 + 1e-9));
      if (optimum == kNever) continue;
      EXPECT_LE(*decision.lower_bound, optimum * (1 + 1e-8));
      if (decision.outcome != strategy::Outcome::optimal) continue;
      ++optimal;
      EXPECT_LE(cost, optimum * (1 + 1e-8));
    }
  }
  EXPECT_GT(optimal, 15);
}

}  // namespace
}  // namespace lowtide::bounds
