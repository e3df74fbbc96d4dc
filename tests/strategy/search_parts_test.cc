// Parts of the search on their own: descent at prices, events to executions and back, and the price
// of held values.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/in_place.h"
#include "plan/lower.h"
#include "strategy/answer.h"
#include "strategy/search/descent.h"
#include "strategy/search/evictions.h"
#include "strategy/search/mixture.h"
#include "strategy/search/ordered_search.h"
#include "strategy/search/priced_descent.h"
#include "strategy/search/relief.h"
#include "strategy/search/start_events.h"
#include "strategy/search/starts.h"
#include "support/ask.h"
#include "support/brute_force.h"
#include "support/random_graph.h"

namespace lowtide::strategy {
namespace {

using testing::allowed_events;
using testing::random_graph;

remat::Prices random_prices(const remat::StageGraph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> prices(graph.num_stages());
  for (double& price : prices) {
    if (random() % 3 != 0) price = 1e-4 * static_cast<double>(random() % 1000);
  }
  return remat::Prices(prices);
}

std::vector<remat::Event> random_events(const remat::StageGraph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<remat::Event> events = allowed_events(graph);
  std::erase_if(events, [&](remat::Event) { return random() % 8 != 0; });
  return events;
}

/// The last moment (stage, op) at which anything reads the output that the op made at `from`,
/// before it makes it again; `from` when nothing does. Checks every run of every reader.
std::pair<int, int> last_read(const remat::StageGraph& graph, const std::set<remat::Event>& runs,
                              int value, std::pair<int, int> from) {
  const remat::StageValue& v = graph.value(value);
  const auto next = runs.upper_bound({from.first, from.second});
  std::pair<int, int> until{graph.num_stages(), 0};
  for (auto at = next; at != runs.end(); ++at) {
    if (at->op != v.producer) continue;
    until = {at->stage, at->op};
    break;
  }
  std::pair<int, int> last = from;
  for (const remat::Event& run : runs) {
    const std::pair<int, int> at{run.stage, run.op};
    if (at > last && at < until && std::ranges::count(v.readers, run.op)) last = at;
  }
  return last;
}

/// Per stage: bytes of values held from before the stage until after it. Checks every run of every
/// op.
std::vector<Bytes> held_over(const remat::StageGraph& graph,
                             const std::vector<remat::Event>& events) {
  std::set<remat::Event> runs(events.begin(), events.end());
  for (int t = 0; t < graph.num_stages(); ++t) runs.insert({t, t});
  std::vector<Bytes> held(graph.num_stages());
  for (const remat::Event& run : runs) {
    for (int v : graph.stage(run.op).outputs) {
      const int last = last_read(graph, runs, v, {run.stage, run.op}).first;
      for (int t = run.stage + 1; t <= last; ++t) held[t] += graph.value(v).bytes;
    }
  }
  return held;
}

TEST(EventPlan, HeldPriceIsTheSumOverStagesOfWhatIsThere) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const remat::StageGraph graph(random_graph(seed, {.ops = 8 + static_cast<int>(seed % 25)}));
    const remat::Prices prices = random_prices(graph, seed);
    remat::EventPlan plan(graph, 0);
    remat::EventPlan priced(graph, prices);
    for (remat::Event event : random_events(graph, seed)) {
      plan.add(event);
      priced.add(event);
    }
    double sum = 0;
    for (int t = 0; t < graph.num_stages(); ++t) {
      sum += prices.each()[t] * static_cast<double>(plan.memory().at(t));
    }
    EXPECT_NEAR(priced.held_price(), sum, 1e-6 * (1 + sum));
  }
}

TEST(EventPlan, EveryStageHasRoomForWhatIsHeldOverIt) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const remat::StageGraph graph(random_graph(
        seed, {.ops = 8 + static_cast<int>(seed % 25), .workspaces = false, .in_place = false}));
    const std::vector<remat::Event> events = random_events(graph, seed);
    remat::EventPlan plan(graph, 0);
    remat::change_to(plan, events);
    const std::vector<Bytes> held = held_over(graph, events);
    for (int t = 0; t < graph.num_stages(); ++t) {
      Bytes made = 0;
      for (int v : graph.stage(t).outputs) made += graph.value(v).bytes;
      const Bytes least = graph.resident_bytes() + held[t];
      if (plan.reruns_in(t).empty()) {
        EXPECT_EQ(plan.memory().at(t), least + made) << "stage " << t;
      } else {
        EXPECT_GE(plan.memory().at(t), least) << "stage " << t;
      }
    }
  }
}

TEST(Events, AreWhatTheirExecutionsSay) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const remat::StageGraph graph(random_graph(seed, {.ops = 40}));
    std::vector<remat::Event> events = random_events(graph, seed);
    std::vector<remat::Event> found = remat::events_of(graph, remat::executions_of(graph, events));
    std::ranges::sort(events);
    std::ranges::sort(found);
    EXPECT_EQ(found, events);
  }
}

TEST(Events, ChangeToReachesAnySetFromAnyOther) {
  const remat::StageGraph graph(random_graph(4, {.ops = 40}));
  remat::EventPlan plan(graph, 0);
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    std::vector<remat::Event> events = random_events(graph, seed);
    remat::change_to(plan, events);
    remat::EventPlan fresh(graph, 0);
    for (remat::Event event : events) fresh.add(event);
    std::vector<remat::Event> found = plan.events();
    std::ranges::sort(found);
    std::ranges::sort(events);
    ASSERT_EQ(found, events);
    ASSERT_EQ(plan.memory().peak(), fresh.memory().peak());
  }
}

double rating(const remat::StageGraph& graph, const remat::Prices& prices,
              const std::vector<remat::Event>& events) {
  remat::EventPlan plan(graph, prices);
  for (remat::Event event : events) plan.add(event);
  return plan.cost() + plan.held_price();
}

TEST(PricedDescent, NeverEndsAboveItsStart) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const remat::StageGraph graph(random_graph(seed, {.ops = 30}));
    const remat::Prices prices = random_prices(graph, seed);
    search::PricedDescent descent(graph, prices);
    for (bool from_nothing : {true, false}) {
      const std::vector<remat::Event> start =
          from_nothing ? std::vector<remat::Event>() : random_events(graph, seed);
      const double before = rating(graph, prices, start);
      const double after = rating(graph, prices, descent.run(start, Control()));
      EXPECT_LE(after, before + 1e-9 * std::abs(before));
      better += after < before;
    }
  }
  EXPECT_GT(better, 60);
}

TEST(Descent, EndsWhereItIsAskedToOrAtTheSamePeakAsAnyOther) {
  const remat::StageGraph graph(testing::chain_graph(15));
  const search::Descent lowest = search::descend(graph, 0, Control());
  const Bytes peak = remat::keep_all_peak(graph);
  ASSERT_LT(lowest.peak, peak);
  for (const Bytes limit : {lowest.peak, (lowest.peak + peak) / 2, peak}) {
    const search::Descent found = search::descend(graph, limit, Control());
    EXPECT_LE(found.peak, limit);
    remat::EventPlan plan(graph, limit);
    remat::change_to(plan, found.events);
    EXPECT_EQ(plan.memory().peak(), found.peak);
    EXPECT_DOUBLE_EQ(plan.cost(), found.cost);
  }
  EXPECT_EQ(search::descend(graph, 1, Control()).peak, lowest.peak);
}

Bytes smallest(const remat::StageGraph& graph,
               const std::vector<std::vector<remat::Event>>& starts) {
  Bytes least = remat::keep_all_peak(graph);
  for (const std::vector<remat::Event>& events : starts) {
    remat::EventPlan plan(graph, 0);
    remat::change_to(plan, events);
    least = std::min(least, plan.memory().peak());
  }
  return least;
}

TEST(Evictions, NeedLessThanSegmentsWhereWholeChainsMustRunAgain) {
  for (int length : {40, 100}) {
    const remat::StageGraph graph(testing::chain_graph(length));
    const Bytes segments = smallest(graph, search::segmentations(graph));
    EXPECT_LT(2 * smallest(graph, search::smaller_evictions(graph, Control())), segments) << length;
  }
}

/// A recurrence over a table that every step reads, and that is very cheap to make again.
Graph recurrence(int steps) {
  GraphData data;
  data.name = "recurrence";
  const auto add = [&](std::string name, Bytes bytes, double cost, Phase phase,
                       std::vector<TensorId> inputs) {
    const auto id = static_cast<TensorId>(data.tensors.size());
    data.tensors.push_back(testing::value(name, bytes));
    data.ops.push_back(testing::op("make " + name, std::move(inputs), {id}, cost));
    data.ops.back().phase = phase;
    return id;
  };
  const TensorId table = add("table", 8 * steps, 1, Phase::forward, {});
  TensorId state = add("first state", 8, 1, Phase::forward, {table});
  std::vector<TensorId> inputs, gates;
  for (int t = 0; t < steps; ++t) {
    const std::string of_step = " " + std::to_string(t);
    inputs.push_back(add("input" + of_step, 16, 0.1, Phase::forward, {table, state}));
    gates.push_back(add("gates" + of_step, 32, 10, Phase::forward, {inputs.back()}));
    state = add("state" + of_step, 8, 0.1, Phase::forward, {gates.back(), state});
  }
  TensorId gradient = add("loss", 8, 1, Phase::backward, {state});
  for (int t = steps - 1; t >= 0; --t) {
    gradient = add("gradient " + std::to_string(t), 8, 10, Phase::backward,
                   {gradient, gates[t], inputs[t]});
  }
  data.outputs = {gradient};
  return Graph(std::move(data));
}

TEST(Descent, HoldsNoLargeValueForEverySegment) {
  const Graph steps = recurrence(32);
  const remat::StageGraph graph(steps);
  const Bytes floor = structural_floor(steps).bytes;
  const Bytes table = steps.tensor(0).bytes;
  EXPECT_GT(smallest(graph, search::segmentations(graph)), floor + table);
  EXPECT_LT(search::descend(graph, 0, Control()).peak, floor + table / 4);
}

TEST(Descent, EndsWhereNoDropsGoLower) {
  for (std::uint64_t seed : {4, 5}) {  // moves of single values end above this in the first
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const remat::StageGraph graph(testing::random_step(seed, 50, 50));
    const search::Descent lowest = search::descend(graph, 0, Control());
    const Bytes lower = lowest.peak - 1 - lowest.peak / 200;
    EXPECT_FALSE(search::Relief(graph, lower).run(lowest.events, 100 * lowest.cost, Control()));
  }
}

TEST(Starts, MixtureIsTheCheapestOfThoseTried) {
  int mixtures = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const remat::StageGraph graph(random_graph(seed, {.ops = 30}));
    search::Starts starts(graph, 0);
    std::vector<search::Start> added;
    for (std::uint64_t k = 0; k < 4; ++k) {
      remat::EventPlan plan(graph, 0);
      if (k > 0) remat::change_to(plan, random_events(graph, 10 * seed + k));
      added.push_back({plan.events(), plan.cost(), plan.memory().peak(), 0});
      starts.add(added.back());
    }
    const Bytes limit = std::ranges::min_element(added, {}, &search::Start::peak)->peak;
    double least = std::numeric_limits<double>::infinity();  // over all pairs: few enough to try
    for (const search::Start& cheaper : added) {
      for (const search::Start& smaller : added) {
        if (cheaper.peak <= limit || smaller.peak > limit || cheaper.cost >= smaller.cost) continue;
        remat::EventPlan plan(graph, limit);
        remat::change_to(plan,
                         *search::Mixture(graph, cheaper.events, smaller.events).within(limit));
        least = std::min(least, plan.cost());
      }
    }
    const auto mixed = starts.mixture_within(limit);
    ASSERT_EQ(mixed.has_value(), least < std::numeric_limits<double>::infinity());
    if (!mixed) continue;
    remat::EventPlan plan(graph, limit);
    remat::change_to(plan, *mixed);
    EXPECT_TRUE(plan.fits());
    EXPECT_NEAR(plan.cost(), least, 1e-9 * least);
    ++mixtures;
  }
  EXPECT_GT(mixtures, 30);
}

TEST(Answer, KeepsAllOnlyWhenThatFits) {
  const remat::StageGraph graph(testing::chain_graph(6));
  const Bytes peak = remat::keep_all_peak(graph);
  EXPECT_FALSE(keep_all_if_it_fits(graph, peak - 1));
  const auto kept = keep_all_if_it_fits(graph, peak);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->outcome, Outcome::optimal);
  EXPECT_EQ(kept->executions, remat::stage_order(graph));
  EXPECT_EQ(kept->lower_bound, graph.required_cost());
}

/// In other orders, from keep-all, with no limit of time.
Decision descended(const Graph& graph, Bytes budget) {
  Control control;
  std::vector<OpId> each = remat::stage_order(remat::StageGraph(graph));
  const Bytes peak = lower(graph, each).peak_bytes;
  return search::descended_in_other_orders({graph, budget, {}, control},
                                           nothing_fits(peak, std::move(each), "it", control));
}

Bytes in_place_peak(const Graph& graph, std::span<const OpId> executions) {
  return with_in_place(graph, lower(graph, executions)).peak_bytes;
}

// The answer names what its plan takes, and a request for that many bytes finds a plan.
TEST(DescentInOtherOrders, NamesABudgetThatIsReachedAgain) {
  int smaller = 0;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph(seed, {.ops = 25});
    const Decision least = descended(graph, 0);
    const remat::StageGraph stages(graph);
    ASSERT_EQ(least.outcome, Outcome::infeasible);
    const Bytes named = *least.smallest_peak;
    EXPECT_LE(in_place_peak(graph, least.smallest_executions), named);
    smaller += named < search::descend(stages, 0, Control()).peak;
    const Decision again = descended(graph, named);
    ASSERT_EQ(again.outcome, Outcome::feasible);
    EXPECT_LE(in_place_peak(graph, again.executions), named);
  }
  EXPECT_GT(smaller, 0) << "no other order needs less than the graph's";
}

TEST(DescentInOtherOrders, GoesOnFromAPlanOfFewBytes) {
  int smaller = 0;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph(seed, {.ops = 60});
    Control control;
    const Strategy& search = find_strategy("search");
    const std::vector<OpId> each = remat::stage_order(remat::StageGraph(graph));
    const Decision further = search.decide({graph, 0, default_options(search), control, each});
    const Bytes peak = lower(graph, each).peak_bytes;
    ASSERT_EQ(further.outcome, Outcome::infeasible);
    EXPECT_LE(*further.smallest_peak, peak);
    EXPECT_LE(in_place_peak(graph, further.smallest_executions), *further.smallest_peak);
    smaller += *further.smallest_peak < peak;
  }
  EXPECT_GE(smaller, 4);
}

// What a plan takes is counted with its writes in place, as in each descent from it.
TEST(DescentInOtherOrders, CountsWhatThePlanTakesThatItGoesOnFrom) {
  GraphData data;
  data.tensors = {testing::value("x", 100), testing::value("y", 100)};
  data.ops = {testing::op("make x", {}, {0}), testing::op("make y", {0}, {1})};
  data.ops.back().inplace = {{0, 0}};
  data.outputs = {1};
  const Graph graph(std::move(data));
  Control over = Control::by_work(1);
  over.count(1e10);
  const Strategy& search = find_strategy("search");
  const std::vector<OpId> each{0, 1};
  const Decision further = search.decide({graph, 0, default_options(search), over, each});
  EXPECT_EQ(further.smallest_peak, 100);
}

}  // namespace
}  // namespace lowtide::strategy
