// Strategies and bounds against the cheapest of all sequences, on every small graph.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "bounds/budget_floor.h"
#include "bounds/price_bound.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/verify.h"
#include "support/ask.h"
#include "support/brute_force.h"
#include "support/cheapest_sequence.h"
#include "support/small_graphs.h"
#include "support/sweep.h"

namespace lowtide::strategy {
namespace {

using testing::CheapestSequence;
using testing::graph_of;
using testing::kNever;
using testing::Pattern;
using testing::patterns;
using testing::Sequences;
using testing::Shape;
using testing::shapes;

constexpr double kRounding = 1e-9;

/// The largest graphs that get every pattern. LOWTIDE_EXHAUSTIVE_OPS=5 (or 6, for hours) sets a
/// larger number.
int largest_ops() {
  const char* asked = std::getenv("LOWTIDE_EXHAUSTIVE_OPS");
  return asked != nullptr ? std::atoi(asked) : 4;
}

/// A graph within a budget, and the least cost of each kind of sequence there.
struct Case {
  const Graph& graph;
  Bytes budget;
  double staged, fixed_order, any_order;
};

/// Every budget from keep-all's peak down to the first that is too small for any plan.
template <typename Check>
void at_every_budget(const Graph& graph, Check check) {
  const CheapestSequence cheapest(graph);
  for (Bytes budget = keep_all_reference(graph).peak_bytes; budget >= 0; --budget) {
    SCOPED_TRACE(::testing::Message() << graph.name() << " within " << budget);
    const Case now{graph, budget, cheapest.cost(budget, Sequences::staged),
                   cheapest.cost(budget, Sequences::fixed_order),
                   cheapest.cost(budget, Sequences::any_order)};
    check(now);
    if (now.any_order == kNever || ::testing::Test::HasFatalFailure()) return;
  }
}

/// Every shape with every pattern up to largest_ops(), and the shapes of five ops each with one of
/// the patterns in turn.
template <typename Check>
void on_every_graph(Check check) {
  std::size_t turn = 0;
  for (int ops = 1; ops <= std::max(5, largest_ops()); ++ops) {
    for (const Shape& shape : shapes(ops)) {
      for (std::size_t p = 0; p < patterns().size(); ++p) {
        if (ops > largest_ops() && p != turn % patterns().size()) continue;
        at_every_budget(graph_of(shape, patterns()[p]), check);
      }
      ++turn;
    }
  }
}

// ---- The oracle --------------------------------------------------------------------------------

TEST(CheapestSequence, CostsWhatTheBestSetOfRerunsCosts) {
  int rerunning = 0;
  for (const Shape& shape : shapes(4)) {
    for (const Pattern& pattern : patterns()) {
      const Graph graph = graph_of(shape, pattern);
      const remat::StageGraph stages(graph);
      const auto plans = testing::all_plans(graph, stages, testing::allowed_events(stages));
      at_every_budget(graph, [&](const Case& now) {
        EXPECT_EQ(now.staged,
                  testing::least_cost(plans, &testing::Candidate::in_place_peak, now.budget));
        EXPECT_LE(now.fixed_order, now.staged);
        EXPECT_LE(now.any_order, now.fixed_order);
        rerunning += now.staged != kNever && now.staged > stages.required_cost();
      });
    }
  }
  EXPECT_GT(rerunning, 40);
}

/// Two large values, each read by one op. In the listed order, both are held at once, or both are
/// made twice.
TEST(CheapestSequence, FindsABetterOrder) {
  GraphData data;
  data.tensors = {testing::resident("x", 0), testing::value("a", 4), testing::value("b", 4),
                  testing::value("c", 1), testing::value("d", 1), testing::value("e", 1)};
  data.ops = {testing::op("a", {0}, {1}), testing::op("b", {0}, {2}), testing::op("c", {1}, {3}),
              testing::op("d", {2}, {4}), testing::op("e", {3, 4}, {5})};
  data.outputs = {5};
  const CheapestSequence cheapest{Graph(std::move(data))};
  EXPECT_EQ(cheapest.cost(9, Sequences::any_order), 5);
  EXPECT_EQ(cheapest.cost(9, Sequences::fixed_order), 5);
  EXPECT_EQ(cheapest.cost(6, Sequences::any_order), 5);
  EXPECT_EQ(cheapest.cost(6, Sequences::fixed_order), 7);
  EXPECT_EQ(cheapest.cost(4, Sequences::any_order), kNever);
}

// ---- Strategies --------------------------------------------------------------------------------

/// How a strategy's answers compare with the best. Reported with --gtest_output=xml.
struct Tally {
  int asked = 0;    ///< asked where a set of reruns is within the budget
  int missed = 0;   ///< of these, called infeasible
  int too_costly = 0;  ///< of these, planned at more than the least cost

  std::string text() const {
    return fmt::format("{} asked, {} missed, {} too_costly", asked, missed, too_costly);
  }
};

void check_plan(const Case& now, const Decision& decision, Tally& tally) {
  Plan plan = with_in_place(now.graph, lower(now.graph, decision.executions));
  plan.budget_bytes = now.budget;
  plan.lower_bound = decision.lower_bound;
  const auto violation = verify(now.graph, plan);
  EXPECT_FALSE(violation) << violation->message;
  EXPECT_GE(plan.cost, now.any_order - kRounding);
  if (decision.outcome == Outcome::optimal) {
    EXPECT_LE(plan.cost, now.staged + kRounding);
  }
  tally.too_costly += plan.cost > now.staged + kRounding;
}

/// The bound must be below every sequence that its model names.
void check_bound(const Case& now, const Decision& decision) {
  if (!decision.lower_bound) return;
  const std::map<std::string_view, double> least{{"any-order", now.any_order},
                                                 {"fixed-order", now.fixed_order},
                                                 {"stages", now.staged},
                                                 // of fewer plans than any of these
                                                 {"intervals", kNever}};
  ASSERT_TRUE(least.contains(decision.bound_model)) << decision.bound_model;
  EXPECT_LE(*decision.lower_bound, least.at(decision.bound_model) + kRounding);
}

void check(std::string_view strategy, const Case& now, Tally& tally, const GivenOptions& options) {
  SCOPED_TRACE(strategy);
  const Decision decision = testing::ask(strategy, now.graph, now.budget, options);
  check_bound(now, decision);
  tally.asked += now.staged != kNever;
  if (decision.outcome == Outcome::infeasible) {
    ASSERT_TRUE(decision.smallest_peak);
    EXPECT_GT(*decision.smallest_peak, now.budget);
    tally.missed += now.staged != kNever;
    return;
  }
  ASSERT_NE(decision.outcome, Outcome::stopped);
  check_plan(now, decision, tally);
}

bool has_checkmate() {
  return std::ranges::find(strategies(), "checkmate", &Strategy::name) != strategies().end();
}

TEST(EverySmallGraph, NoStrategyIsBetterThanTheBestSequence) {
  std::map<std::string_view, Tally> tallies;
  for (int ops = 1; ops <= testing::sweep(4, 3); ++ops) {
    for (const Shape& shape : shapes(ops)) {
      for (const Pattern& pattern : patterns()) {
        at_every_budget(graph_of(shape, pattern), [&](const Case& now) {
          for (const Strategy& strategy : strategies()) {
            if (strategy.name == "search" || strategy.name.starts_with("checkmate")) continue;
            check(strategy.name, now, tallies[strategy.name],
                  testing::short_search(strategy.name, 2));
          }
        });
      }
    }
  }
  for (const auto& [name, tally] : tallies) {
    RecordProperty(testing::test_name(std::string(name)), tally.text());
    EXPECT_GT(tally.asked, 40) << name;
  }
}

TEST(EverySmallGraph, SearchFindsTheBestSetOfReruns) {
  Tally tally;
  int beyond_stages = 0, better_order = 0;
  on_every_graph([&](const Case& now) {
    // Proving that there is no plan is slow.
    const bool try_it = now.staged != kNever || now.graph.num_ops() < 4;
    if (try_it) check("search", now, tally, testing::short_search("search", 2));
    beyond_stages += now.fixed_order < now.staged;
    better_order += now.any_order < now.fixed_order;
  });
  RecordProperty("search", tally.text());
  RecordProperty("only_beyond_stages", beyond_stages);
  RecordProperty("cheaper_in_another_order", better_order);
  EXPECT_EQ(tally.missed, 0);
  EXPECT_EQ(tally.too_costly, 0);
}

/// Few sequences are cheaper than every set of reruns: these are all cases on five ops with the
/// patterns in which no set of reruns is within the budget. Strategies that search only sets of
/// reruns then say that they found no plan, not that there is none.
TEST(EverySmallGraph, NothingBeyondStagesIsDenied) {
  struct Beyond {
    std::string pattern;
    Shape shape;
    Bytes budget;
    double cost;
  };
  for (const Beyond& beyond : {Beyond{"falling", {0, 1, 2, 3, 13}, 18, 36},
                               Beyond{"falling", {0, 1, 2, 3, 13}, 16, 36},
                               Beyond{"free_op", {0, 0, 1, 3, 14}, 13, 8},
                               Beyond{"workspace", {0, 0, 0, 3, 13}, 10, 17}}) {
    const Pattern& pattern = *std::ranges::find(patterns(), beyond.pattern, &Pattern::name);
    const Graph graph = graph_of(beyond.shape, pattern);
    SCOPED_TRACE(::testing::Message() << graph.name() << " within " << beyond.budget);
    const CheapestSequence cheapest(graph);
    EXPECT_EQ(cheapest.cost(beyond.budget, Sequences::staged), kNever);
    EXPECT_EQ(cheapest.cost(beyond.budget, Sequences::fixed_order), beyond.cost);
    for (const char* strategy : {"search", "checkmate"}) {
      if (strategy != default_strategy().name && !has_checkmate()) continue;
      GivenOptions options = testing::short_search(strategy, 2);
      options["order"] = 0;
      if (strategy == std::string_view("checkmate")) options = {{"start", 0}};
      const Decision decision = testing::ask(strategy, graph, beyond.budget, options);
      EXPECT_EQ(decision.outcome, Outcome::infeasible);
      EXPECT_THAT(decision.message, ::testing::Not(::testing::StartsWith("no plan is")));
    }
  }
}

/// By the solver alone. The model counts writes in place differently from a plan, so only the bound
/// is checked for them.
TEST(EverySmallGraph, CheckmateProvesTheOptimum) {
  if (!has_checkmate()) GTEST_SKIP() << "built without HiGHS";
  Tally tally, in_place;
  std::size_t turn = 0;
  for (const Shape& shape : shapes(4)) {
    const Pattern& pattern = patterns()[turn++ % patterns().size()];
    at_every_budget(graph_of(shape, pattern), [&](const Case& now) {
      for (const char* form : {"ends", "paper", "strong"}) {
        SCOPED_TRACE(::testing::Message() << "formulation " << form);
        check("checkmate", now, pattern.in_place ? in_place : tally,
              {{"formulation", form}, {"start", 0}});
      }
      check("checkmate-lp", now, in_place, {});
    });
  }
  EXPECT_GT(tally.asked, 50);
  EXPECT_EQ(tally.missed, 0);
  EXPECT_EQ(tally.too_costly, 0);
}

TEST(EverySmallGraph, TheBoundIsBelowTheBestSequence) {
  on_every_graph([&](const Case& now) {
    const remat::StageGraph stages(now.graph);
    bounds::PriceBound bound(stages, now.budget);
    if (bound.infeasible()) {
      EXPECT_EQ(now.fixed_order, kNever);
      return;
    }
    for (int values : {1, 2, 4}) {
      bound.raise(values, bounds::Gluing::loose, 1e4, Control());
      EXPECT_LE(bound.value(), now.fixed_order + kRounding) << values << " values";
    }
  });
}

TEST(EverySmallGraph, TheFloorIsBelowEverySequence) {
  int tight = 0, loose = 0;
  on_every_graph([&](const Case& now) {
    const Bytes floor = structural_floor(now.graph).bytes;
    if (now.any_order != kNever) {
      EXPECT_LE(floor, now.budget);
      return;
    }
    (floor == now.budget + 1 ? tight : loose) += 1;
  });
  RecordProperty("tight", tight);
  RecordProperty("loose", loose);
  EXPECT_GT(tight, 20 * loose);
}

/// If each op may run again, it is the smallest peak of all.
TEST(EverySmallGraph, TheFloorOfMakingIsTheLeastOfAnySequence) {
  int beyond_structure = 0, once = 0;
  on_every_graph([&](const Case& now) {
    const Bytes floor = bounds::budget_floor(now.graph);
    if (now.any_order != kNever) {
      EXPECT_LE(floor, now.budget);
      return;
    }
    const bool only_once = now.graph.name().starts_with("once");
    once += only_once && floor <= now.budget;
    if (!only_once) {
      EXPECT_EQ(floor, now.budget + 1);
    }
    beyond_structure += structural_floor(now.graph).bytes <= now.budget;
  });
  RecordProperty("beyond_structure", beyond_structure);
  RecordProperty("once_below", once);
  EXPECT_GT(beyond_structure, 10);
}

TEST(EverySmallGraph, TheFloorOfMakingHoldsWhereverItsSearchEnds) {
  on_every_graph([&](const Case& now) {
    if (now.any_order == kNever) return;
    for (std::int64_t work : {0, 1, 3, 10, 40})
      EXPECT_LE(bounds::budget_floor(now.graph, work), now.budget);
  });
}

}  // namespace
}  // namespace lowtide::strategy
