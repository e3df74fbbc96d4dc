#include "ordering/least_peak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "ordering/before_cut.h"
#include "ordering/known_order.h"
#include "ordering/list_orders.h"
#include "ordering/peak_bound.h"
#include "ordering/window.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/verify.h"
#include "support/ask.h"
#include "support/random_graph.h"
#include "support/two_branches.h"

namespace lowtide::ordering {
namespace {

using testing::random_graph;
using testing::two_branches;

using Stages = std::vector<int>;

/// Every order of the stages at [first, last) that the precedence allows; all others stay.
void for_each_order(const Schedule& schedule, int first, int last,
                    const std::function<void(const Stages&)>& visit) {
  Stages order = schedule.order();
  const auto begin = order.begin() + first, end = order.begin() + last;
  std::sort(begin, end);
  do {
    const auto comes_early = [&](int stage) {
      const auto here = std::ranges::find(order, stage);
      return std::ranges::any_of(schedule.precedence().before(stage), [&](int earlier) {
        return std::ranges::find(order, earlier) > here;
      });
    };
    if (std::none_of(begin, end, comes_early)) visit(order);
  } while (std::next_permutation(begin, end));
}

bool is_allowed(const Precedence& precedence, const Stages& order) {
  std::vector<bool> has_run(order.size());
  for (int stage : order) {
    for (int earlier : precedence.before(stage)) {
      if (!has_run[earlier]) return false;
    }
    if (has_run[stage]) return false;
    has_run[stage] = true;
  }
  return true;
}

/// A graph of few ops with few enough orders to try, and all its inputs.
struct Small {
  explicit Small(std::uint64_t seed)
      : graph(random_graph(seed, {.ops = 5 + static_cast<int>(seed % 5)})),
        stages(graph),
        precedence(graph, stages),
        given(stages, precedence, 0) {}

  bool is_small() const { return stages.end() > 0 && stages.end() <= 8; }
  Plan plan(const Stages& order) const {
    return with_in_place(graph, lower(graph, ops_of(stages, order)));
  }

  Graph graph;
  remat::StageGraph stages;
  Precedence precedence;
  Schedule given;
};

TEST(LeastPeak, IsThatOfTheBestOfAllOrders) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Small small(seed);
    if (!small.is_small()) continue;
    Bytes least = small.given.peak();
    for_each_order(small.given, 0, small.stages.end(), [&](const Stages& order) {
      least = std::min(least, small.plan(order).peak_bytes);
    });
    const LeastPeak found = least_peak(small.stages, small.precedence, {}, Control());
    EXPECT_EQ(found.peak, least);
    EXPECT_EQ(found.bound, least);
    EXPECT_EQ(small.plan(found.stages).peak_bytes, least);
    EXPECT_FALSE(verify(small.graph, small.plan(found.stages)));
    better += least < small.given.peak();
  }
  EXPECT_GT(better, 30);
}

TEST(PeakBound, IsTheLeastThatAStageNeedsInAnyOrder) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Small small(seed);
    if (!small.is_small()) continue;
    std::vector<Bytes> least = small.given.in_use();  // position and stage are the same there
    for_each_order(small.given, 0, small.stages.end(), [&](const Stages& order) {
      const Schedule schedule(small.stages, small.precedence, 0, order);
      for (int stage : order) {
        Bytes& known = least[stage];
        known = std::min(known, schedule.in_use()[schedule.position(stage)]);
      }
    });
    for (int stage = 0; stage < small.stages.end(); ++stage) {
      EXPECT_EQ(BeforeCut(small.stages, small.precedence, stage).least(), least[stage]) << stage;
    }
  }
}

/// If some order keeps the limit, the added precedence holds in all such orders; if none does, that
/// may be found.
TEST(PrecedenceWithin, HoldsInAllOrdersWithinTheLimit) {
  int refuted = 0, told = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Small small(seed);
    if (!small.is_small()) continue;
    for (const Bytes limit : {small.given.peak() - 1, small.given.peak() * 9 / 10}) {
      std::int64_t cuts = 1000;
      const auto narrow = precedence_within(limit, small.given, 8, cuts);
      refuted += !narrow;
      for_each_order(small.given, 0, small.stages.end(), [&](const Stages& order) {
        if (Schedule(small.stages, small.precedence, 0, order).peak() > limit) return;
        ASSERT_TRUE(narrow);
        EXPECT_TRUE(is_allowed(*narrow, order));
      });
      if (!narrow) continue;
      for (int i = 0; i < small.stages.end(); ++i) {
        told += narrow->before(i).size() > small.precedence.before(i).size();
      }
    }
  }
  EXPECT_GT(refuted, 50);
  EXPECT_GT(told, 10);
}

TEST(Window, IsOrderedAsWellAsCanBe) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph = random_graph(seed, {.ops = 25});
    const remat::StageGraph stages(graph);
    if (stages.end() < 8) continue;
    const Schedule given(stages, Precedence(graph, stages), 0);
    const int first = static_cast<int>(seed % static_cast<std::uint64_t>(stages.end() - 6));
    const int last = first + 7;
    const auto peak = [&](const Stages& order) {
      return peak_of(Schedule(stages, given.precedence(), 0, order), first, last);
    };
    Bytes least = peak(given.order());
    for_each_order(given, first, last, [&](const Stages& order) {
      least = std::min(least, peak(order));
    });
    const WindowAnswer answer =
        least_window(given, first, last, {.below = peak(given.order()), .work = 1'000'000});
    EXPECT_EQ(answer.bound, least);
    EXPECT_EQ(answer.stages.has_value(), least < peak(given.order()));
    if (!answer.stages) continue;
    Schedule rearranged = given;
    rearranged.rearrange(first, *answer.stages);
    EXPECT_TRUE(is_allowed(given.precedence(), rearranged.order()));
    EXPECT_EQ(peak(rearranged.order()), least);
    ++better;
  }
  EXPECT_GT(better, 10);
}

TEST(Window, KnowsABoundWhenItsWorkIsOver) {
  const Graph graph = random_graph(7, {.ops = 60, .random_ops = false, .effects = false});
  const remat::StageGraph stages(graph);
  const Schedule given(stages, Precedence(graph, stages), 0);
  Bytes last = 0;
  for (std::int64_t work = 1; work < 10'000'000; work *= 10) {
    const WindowAnswer answer =
        least_window(given, 0, given.size(), {.below = given.peak(), .work = work});
    EXPECT_GE(answer.bound, last);
    EXPECT_LE(answer.bound, given.peak());
    last = answer.bound;
  }
  EXPECT_GT(last, stages.resident_bytes());
}

TEST(LeastPeak, IsNeverAboveTheGraphsOwn) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph = random_graph(seed, {.ops = 20 + static_cast<int>(seed)});
    const remat::StageGraph stages(graph);
    const Precedence precedence(graph, stages);
    const LeastPeak found = least_peak(stages, precedence, {.work = 0.05}, Control());
    EXPECT_TRUE(is_allowed(precedence, found.stages));
    const Plan plan = with_in_place(graph, lower(graph, ops_of(stages, found.stages)));
    EXPECT_FALSE(verify(graph, plan));
    EXPECT_EQ(plan.peak_bytes, found.peak);
    EXPECT_LE(found.bound, found.peak);
    EXPECT_LE(found.peak, Schedule(stages, precedence, 0).peak());
    EXPECT_EQ(least_peak(stages, precedence, {.work = 0.05}, Control()).stages, found.stages);
  }
}

TEST(LeastPeak, EndsAtThePeakThatIsWanted) {
  const Graph graph = two_branches();
  const remat::StageGraph stages(graph);
  const Precedence precedence(graph, stages);
  const Bytes given = remat::keep_all_peak(stages);
  const LeastPeak enough = least_peak(stages, precedence, {.wanted = given}, Control());
  EXPECT_EQ(enough.peak, given);
  EXPECT_LT(enough.bound, given);
  EXPECT_FALSE(enough.proven());
  EXPECT_EQ(least_peak(stages, precedence, {.wanted = 102}, Control()).peak, 102);
}

class KnownOrderTest : public ::testing::Test {
 protected:
  /// The known least peak for this `wanted`.
  Bytes least(std::optional<Bytes> wanted) {
    return known_.least(graph_, stages_, {.wanted = wanted}, Control()).peak;
  }

  const Graph graph_ = two_branches();
  const remat::StageGraph stages_{graph_};
  const Bytes given_ = remat::keep_all_peak(stages_);
  KnownOrder known_;
};

TEST_F(KnownOrderTest, LooksAgainOnlyForWhatIsNotKnown) {
  EXPECT_EQ(least(given_), given_);
  EXPECT_EQ(least(102), 102);
  EXPECT_EQ(least(given_), 102);  // a new search would end at the graph's own
  EXPECT_EQ(least(std::nullopt), 102);
}

TEST_F(KnownOrderTest, RemembersThatNoneWasFound) {
  Control::request_stop();
  EXPECT_EQ(least(given_ - 1), given_);  // stopped before the search
  Control::clear_stop();
  EXPECT_EQ(least(given_ - 1), given_);
  EXPECT_EQ(least(given_ - 2), given_);
  EXPECT_EQ(least(std::nullopt), 102);
  EXPECT_EQ(least(50), 102);
}

TEST(LeastPeak, WantsNothingThatNoOrderHas) {
  const Graph graph = two_branches();
  const remat::StageGraph stages(graph);
  const LeastPeak none =
      least_peak(stages, Precedence(graph, stages), {.wanted = 0}, Control());
  EXPECT_EQ(none.peak, remat::keep_all_peak(stages));  // no search for an order
  EXPECT_GT(none.bound, 0);
}

TEST(LeastPeak, KeepsTheOrderOfAGraphThatHasNoBetter) {
  const Graph graph = testing::chain_graph(5, 100);
  const remat::StageGraph stages(graph);
  const LeastPeak found = least_peak(stages, Precedence(graph, stages), {}, Control());
  EXPECT_EQ(ops_of(stages, found.stages), remat::stage_order(stages));
  EXPECT_TRUE(found.proven());
}

TEST(LeastPeak, OfNothingIsWhatIsResident) {
  GraphData data;
  data.name = "nothing";
  data.tensors = {testing::resident("weights", 10)};
  const Graph graph(std::move(data));
  const remat::StageGraph stages(graph);
  const LeastPeak found = least_peak(stages, Precedence(graph, stages), {}, Control());
  EXPECT_EQ(found.peak, 10);
  EXPECT_TRUE(found.stages.empty());
}

/// As one op updates parameters that share a storage.
TEST(LeastPeak, IsAnOrderWhereAnOpWritesAStorageByTwoInputs) {
  GraphData data = two_branches().data();
  const auto storage = static_cast<TensorId>(data.tensors.size());
  data.tensors.push_back(testing::resident("parameters", 8));
  data.ops[1].inputs = {storage, storage};
  data.ops[1].mutates = {0, 1};
  const Graph graph(std::move(data));
  const remat::StageGraph stages(graph);
  const LeastPeak found = least_peak(stages, Precedence(graph, stages), {}, Control());
  EXPECT_EQ(found.stages.size(), 5u);
  EXPECT_EQ(found.peak, 110);
}

TEST(KeepAllStrategy, TakesAnotherOrderOnlyWhereTheGraphsDoesNotFit) {
  const Graph graph = two_branches();
  const Bytes given = keep_all_reference(graph).peak_bytes;
  EXPECT_EQ(testing::ask("keep-all", graph, given).executions, (std::vector<OpId>{0, 1, 2, 3, 4}));
  const strategy::Decision least = testing::ask("keep-all", graph, given - 1);
  EXPECT_EQ(least.outcome, strategy::Outcome::optimal);
  EXPECT_EQ(lower(graph, least.executions).peak_bytes, 102);
  EXPECT_EQ(testing::ask("keep-all", graph, 101).smallest_peak, 102);
  EXPECT_EQ(testing::ask("keep-all", graph, 101, {{"order", 0}}).smallest_peak, given);
}

TEST(SearchStrategy, RunsNothingAgainWhereAnOrderFits) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph = random_graph(seed, {.ops = 20});
    const remat::StageGraph stages(graph);
    const Precedence precedence(graph, stages);
    const Bytes least = least_peak(stages, precedence, {}, Control()).peak;
    if (least == Schedule(stages, precedence, 0).peak()) continue;
    const strategy::Decision decision =
        testing::ask("search", graph, least, {{"moves", 5}, {"bound", 0.001}, {"order", 1}});
    EXPECT_EQ(decision.outcome, strategy::Outcome::optimal);
    EXPECT_NEAR(lower(graph, decision.executions).cost, stages.required_cost(), 1e-9);
    EXPECT_NEAR(*decision.lower_bound, stages.required_cost(), 1e-9);
    EXPECT_EQ(decision.bound_model, "any-order");
    ++better;
  }
  EXPECT_GT(better, 30);
}

TEST(ListOrders, AreAllowed) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph = random_graph(seed, {.ops = 10 + static_cast<int>(seed)});
    const remat::StageGraph stages(graph);
    const Precedence precedence(graph, stages);
    for (const auto make : {eager_order, least_growth_order, backward_order}) {
      const Stages order = make(stages, precedence);
      EXPECT_EQ(static_cast<int>(order.size()), stages.end());
      EXPECT_TRUE(is_allowed(precedence, order));
    }
  }
}

TEST(ListOrders, TakeWhatFreesMemoryFirst) {
  const Graph graph = two_branches();
  const remat::StageGraph stages(graph);
  const Precedence precedence(graph, stages);
  for (const auto make : {eager_order, least_growth_order, backward_order}) {
    EXPECT_EQ(Schedule(stages, precedence, 0, make(stages, precedence)).peak(), 102);
  }
}

}  // namespace
}  // namespace lowtide::ordering
