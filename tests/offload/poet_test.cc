#include "offload/poet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "offload/joint.h"
#include "plan/replay.h"
#include "support/ask.h"
#include "support/expect_valid.h"
#include "support/random_graph.h"
#include "support/random_moves.h"
#include "support/sweep.h"
#include "support/throws.h"

namespace lowtide::offload {
namespace {

using testing::random_step;

constexpr double kNoPlan = std::numeric_limits<double>::infinity();
constexpr Lanes kCheapCopies{.out = {0.25, 0}, .in = {0.25, 0}};
constexpr Lanes kDearCopies{.out = {1e5, 0}, .in = {1e5, 0}};

/// The optimum of the program for a graph without workspaces and writes in place, as the shortest
/// way through all that may be in memory and in slower memory before each possible run.
class ShortestWay {
 public:
  ShortestWay(const Graph& graph, Bytes budget, const Lanes& lanes)
      : stages_(graph), budget_(budget - stages_.resident_bytes()), lanes_(lanes) {
    for (int v = 0; v < stages_.num_values(); ++v) {
      const TensorId id = stages_.value(v).tensor;
      movable_.push_back(std::ranges::count(graph.outputs(), id) == 0);
    }
  }

  double cost() { return from({0, Part::leaving, 0, 0, 0}); }

 private:
  using Set = unsigned;
  /// Of a stage: first values leave, then others are loaded, and then ops run and values leave.
  enum class Part { leaving, loads, runs };
  struct State {
    int stage;
    Part part;
    int next;  ///< the op that may run
    Set memory, slower;
    auto operator<=>(const State&) const = default;
  };

  static bool has(Set set, int v) { return (set >> v & 1U) != 0; }
  static Set with(Set set, int v) { return set | 1U << v; }
  static Set without(Set set, int v) { return set & ~(1U << v); }

  bool fits(Set memory) const {
    Bytes sum = 0;
    for (int v = 0; v < stages_.num_values(); ++v) {
      sum += has(memory, v) ? stages_.value(v).bytes : 0;
    }
    return sum <= budget_;
  }

  double from(const State& state) {
    if (state.stage > stages_.end()) return 0;
    if (const auto known = known_.find(state); known != known_.end()) return known->second;
    const double best = std::min({by_leaving(state), by_loads(state), by_run(state)});
    return known_[state] = best;
  }

  /// A value is dropped, or copied out and dropped.
  double by_leaving(const State& state) {
    double best = kNoPlan;
    for (int v = 0; v < stages_.num_values(); ++v) {
      if (!has(state.memory, v)) continue;
      State left = state;
      if (state.part == Part::loads) left.part = Part::runs;
      left.memory = without(state.memory, v);
      best = std::min(best, from(left));
      if (!movable_[v] || has(state.slower, v)) continue;
      left.slower = with(state.slower, v);
      best = std::min(best, lanes_.out.time(stages_.value(v).bytes) + from(left));
    }
    return best;
  }

  double by_loads(const State& state) {
    if (state.part == Part::runs) return kNoPlan;
    double best = kNoPlan;
    for (int v = 0; v < stages_.num_values(); ++v) {
      if (has(state.memory, v) || !has(state.slower, v)) continue;
      State loaded = state;
      loaded.part = Part::loads;
      loaded.memory = with(state.memory, v);
      if (!fits(loaded.memory)) continue;
      best = std::min(best, lanes_.in.time(stages_.value(v).bytes) + from(loaded));
    }
    return best;
  }

  double by_run(const State& state) {
    const auto [t, part, i, memory, slower] = state;
    double best = i < t ? from({t, Part::runs, i + 1, memory, slower}) : kNoPlan;
    if (i < t && !stages_.may_rerun(i, t)) return best;
    const remat::Stage& stage = stages_.stage(i);
    if (!std::ranges::all_of(stage.inputs, [&](int v) { return has(memory, v); })) return best;
    Set made = memory;
    for (const int v : stage.outputs) made = with(made, v);
    if (!fits(made)) return best;
    const State after = i < t ? State{t, Part::runs, i + 1, made, slower}
                              : State{t + 1, Part::leaving, 0, made, slower};
    return std::min(best, stage.cost + from(after));
  }

  const remat::StageGraph stages_;
  const Bytes budget_;
  const Lanes lanes_;
  std::vector<bool> movable_;
  std::map<State, double> known_;
};

std::optional<PoetAnswer> answer_of(const Graph& graph, Bytes budget, const Lanes& lanes) {
  return solve_poet(graph, remat::StageGraph(graph), budget, lanes, Control());
}

/// From what every plan needs to what keep-all needs.
Bytes budget_between(const Graph& graph, double share) {
  const Bytes floor = structural_floor(graph).bytes;
  const auto range = static_cast<double>(keep_all_reference(graph).peak_bytes - floor);
  return floor + static_cast<Bytes>(share * range);
}

/// Copies take about as long as ops.
Lanes lanes_like_ops(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto quarters = [&] { return static_cast<double>(random() % 16) / 4; };
  return {.out = {quarters(), quarters() / 4}, .in = {quarters(), quarters() / 4}};
}

TEST(Poet, TheProgramHasTheOptimumOfAnEnumeration) {
  int found = 0, mixed = 0;
  for (std::uint64_t seed = 0; seed < lowtide::testing::sweep(200u, 30u); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_step(seed, 4, 3);
    const Bytes budget = budget_between(graph, 0.25 * static_cast<double>(seed % 4));
    const Lanes lanes = lanes_like_ops(seed);
    const double best = ShortestWay(graph, budget, lanes).cost();
    const auto answer = answer_of(graph, budget, lanes);
    ASSERT_EQ(answer.has_value(), best < kNoPlan);
    if (!answer) continue;
    EXPECT_TRUE(answer->is_optimal);
    EXPECT_NEAR(answer->cost, best, 1e-6 * best);
    ++found;
    if (!answer->reruns.empty() && !answer->loads.empty()) ++mixed;
  }
  EXPECT_GT(found, 10);
  EXPECT_GT(mixed, 0);
}

void expect_within(const Graph& graph, Bytes budget, const Lanes& lanes) {
  const remat::StageGraph stages(graph);
  const auto answer = solve_poet(graph, stages, budget, lanes, Control());
  if (!answer) return;
  const Plan plan = plan_of_answer(graph, stages, *answer, lanes, budget, Control());
  testing::expect_valid(graph, plan);
  EXPECT_LE(plan.peak_bytes, budget);
}

TEST(Poet, PlansAreValidWithinTheBudgetAndEndInTime) {
  for (std::uint64_t seed = 0; seed < lowtide::testing::sweep(400u, 40u); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_step(seed, 6, 6);
    const Bytes budget = budget_between(graph, 0.2 * static_cast<double>(seed % 5));
    expect_within(graph, budget, seed % 2 == 0 ? lanes_like_ops(seed) : testing::some_lanes(seed));
  }
}

TEST(Poet, ViewsAndSeveralOutputsAndWorkspacesCount) {
  for (std::uint64_t seed = 0; seed < lowtide::testing::sweep(400u, 40u); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_graph(seed, {.ops = 14, .in_place = false});
    expect_within(graph, budget_between(graph, 0.25 * static_cast<double>(seed % 4)),
                  lanes_like_ops(seed));
  }
}

/// Any reruns and loads, needed or not.
PoetAnswer some_answer(const Graph& graph, const remat::StageGraph& stages, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<bool> may_move = movable(graph);
  PoetAnswer answer;
  for (int t = 0; t < stages.num_stages(); ++t) {
    for (int i = 0; i < t; ++i) {
      if (stages.may_rerun(i, t) && random() % 8 == 0) answer.reruns.push_back({t, i});
    }
    for (int v = 0; v < stages.num_values(); ++v) {
      const bool may = may_move[stages.value(v).tensor] && stages.value(v).producer < t;
      if (may && random() % 8 == 0) answer.loads.push_back({t, v});
    }
  }
  return answer;
}

bool has_both_ways(const remat::StageGraph& stages, const PoetAnswer& answer) {
  return std::ranges::any_of(answer.loads, [&](const PoetLoad& load) {
    const int producer = stages.value(load.value).producer;
    return std::ranges::count(answer.reruns, producer, &remat::Event::op) > 0;
  });
}

TEST(Poet, AValueIsRerunAndLoadedInOnePlan) {
  int moving = 0;
  for (std::uint64_t seed = 0; seed < lowtide::testing::sweep(2000u, 200u); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_graph(seed, {.ops = 20});
    const remat::StageGraph stages(graph);
    const Bytes budget = budget_between(graph, 0.5);
    const PoetAnswer answer = some_answer(graph, stages, seed);
    const Plan plan =
        plan_of_answer(graph, stages, answer, testing::some_lanes(seed), budget, Control());
    testing::expect_valid(graph, plan);
    if (plan.slower && has_both_ways(stages, answer)) ++moving;
  }
  EXPECT_GT(moving, 100);
}

TEST(Poet, WhereCopiesAreDearItCostsWhatCheckmateDoes) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < lowtide::testing::sweep(200u, 30u); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_step(seed, 7, 5);
    const Bytes budget = budget_between(graph, 0.3 + 0.2 * static_cast<double>(seed % 3));
    const strategy::Decision checkmate = testing::ask("checkmate", graph, budget, {{"start", 0}});
    if (checkmate.outcome != strategy::Outcome::optimal) continue;
    const auto answer = answer_of(graph, budget, kDearCopies);
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->loads.empty());
    EXPECT_NEAR(answer->cost, *checkmate.lower_bound, 1e-6 * answer->cost);
    ++found;
  }
  EXPECT_GT(found, 10);
}

TEST(Poet, WhereNoOpMayRunAgainItOnlyPages) {
  int paging = 0;
  for (std::uint64_t seed = 0; seed < lowtide::testing::sweep(200u, 20u); ++seed) {
    SCOPED_TRACE(seed);
    GraphData data = random_step(seed, 7, 5).data();
    for (Op& op : data.ops) op.recomputable = false;
    const Graph graph(std::move(data));
    const auto answer = answer_of(graph, budget_between(graph, 0.4), kCheapCopies);
    if (!answer) continue;
    EXPECT_TRUE(answer->reruns.empty());
    if (!answer->loads.empty()) ++paging;
  }
  EXPECT_GT(paging, 10);
}

TEST(Poet, ATooLargeGraphIsRefusedWithAWayOut) {
  const Graph graph = testing::chain_graph(300);
  const Bytes budget = testing::share_of_peak(graph, 0.5);
  EXPECT_THROWS_INPUT_ERROR(poet(graph, budget, kCheapCopies, Control()),
                            ::testing::HasSubstr("capuchin"));
}

TEST(Poet, PlanWithItHasAddressesWithinTheBudget) {
  const Graph graph = testing::chain_graph(8);
  Control control;
  const auto planned =
      plan_with(graph, testing::share_of_peak(graph, 0.6), {kCheapCopies, {}}, Ways::poet, control);
  ASSERT_TRUE(planned.plan) << planned.message;
  EXPECT_EQ(planned.plan->strategy, "poet");
  EXPECT_LE(planned.plan->layout->arena_bytes, planned.budget_bytes);
  EXPECT_GE(planned.plan->cost, *planned.plan->lower_bound * (1 - 1e-9));
}

TEST(Poet, PlansWithWritesInPlaceHaveAddressesWithinTheBudget) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < lowtide::testing::sweep(200u, 20u); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_graph(seed, {.ops = 14});
    Control control;
    const auto planned = plan_with(graph, budget_between(graph, 0.6), {lanes_like_ops(seed), {}},
                                   Ways::poet, control);
    if (!planned.plan) continue;
    EXPECT_LE(planned.plan->layout->arena_bytes, planned.budget_bytes);
    ++found;
  }
  EXPECT_GT(found, 10);
}

TEST(Poet, WhenItIsStoppedItHasItsFirstPlan) {
  const Graph graph = testing::chain_graph(20);
  Control control;
  Control::request_stop();
  const auto planned =
      plan_with(graph, testing::share_of_peak(graph, 0.6), {kCheapCopies, {}}, Ways::poet, control);
  Control::clear_stop();
  ASSERT_TRUE(planned.plan) << planned.message;
  EXPECT_LE(planned.plan->layout->arena_bytes, planned.budget_bytes);
}

TEST(Poet, BelowTheFloorItHasNoPlan) {
  const Graph graph = testing::chain_graph(8);
  Control control;
  const auto planned =
      plan_with(graph, structural_floor(graph).bytes - 1, {kCheapCopies, {}}, Ways::poet, control);
  EXPECT_FALSE(planned.plan);
  EXPECT_EQ(planned.outcome, strategy::Outcome::infeasible);
  EXPECT_THAT(planned.message, ::testing::HasSubstr("poet"));
}

}  // namespace
}  // namespace lowtide::offload
