#include "plan/places.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "layout/layout.h"
#include "plan/io.h"
#include "plan/verify.h"
#include "support/check_plan.h"
#include "support/random_moves.h"
#include "support/sweep.h"

namespace lowtide {
namespace {

using ::testing::HasSubstr;

/// Half of the storages in each place.
offload::Routes some_routes(const Graph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  offload::Routes routes{.lanes = testing::some_lanes(seed),
                         .second = SecondPlace{.lanes = testing::some_lanes(seed + 1)}};
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    routes.places.push_back(random() % 2 == 0 ? PlaceIndex::first : PlaceIndex::second);
  }
  return routes;
}

/// A plan that moves values or residents to two places, with addresses and the budgets that it
/// exactly needs; nothing where the draw moves nothing.
std::optional<Plan> some_plan(const testing::RandomMoves& moves, std::uint64_t seed) {
  constexpr std::array kHurry{1.2};
  Plan plan = offload::schedule(moves.graph, moves.loads, moves.plan,
                                some_routes(moves.graph, seed), moves.instant().peak_bytes, kHurry);
  if (!plan.slower) return std::nullopt;
  plan.layout = layout::assign_addresses(moves.graph, plan);
  plan.budget_bytes = plan.layout->arena_bytes;
  const PlaceBytes bytes = bytes_of_places(*plan.slower);
  plan.slower->second->first_budget = bytes.first;
  plan.slower->second->budget = bytes.second;
  return plan;
}

Lanes slowed(const Lanes& lanes, double times) {
  const auto slowed_lane = [&](const Lane& lane) -> Lane {
    return {times * lane.latency, times * lane.per_byte};
  };
  return {slowed_lane(lanes.out), slowed_lane(lanes.in), lanes.shared};
}

testing::RandomMoves some_moves(std::uint64_t seed) {
  const auto movers = seed % 2 == 0 ? testing::Movers::values : testing::Movers::residents_too;
  return testing::RandomMoves(seed, {.ops = 12}, movers);
}

/// The first drawn plan with copies in both places.
struct TwoPlaces : ::testing::Test {
  TwoPlaces() {
    for (std::uint64_t seed = 0; !plan; ++seed) {
      moves.emplace(some_moves(seed));
      plan = some_plan(*moves, seed);
      if (!plan) continue;
      const PlaceBytes bytes = bytes_of_places(*plan->slower);
      if (bytes.first == 0 || bytes.second == 0) plan.reset();
    }
  }

  void expect(Rule rule, const std::string& part) const {
    const auto violation = verify(moves->graph, *plan);
    ASSERT_TRUE(violation);
    EXPECT_EQ(name(violation->rule), name(rule)) << violation->message;
    EXPECT_THAT(violation->message, HasSubstr(part));
    const testing::PlanCase one{&moves->graph, &*plan};
    EXPECT_FALSE(testing::python_verdicts({&one, 1}).front().valid);
  }

  std::optional<testing::RandomMoves> moves;
  std::optional<Plan> plan;
};

TEST_F(TwoPlaces, ExactlyTheBudgetsThatAreNeeded) {
  EXPECT_TRUE(testing::is_valid_plan(moves->graph, *plan));
  plan->slower->second->first_budget.reset();
  plan->slower->second->budget.reset();
  EXPECT_TRUE(testing::is_valid_plan(moves->graph, *plan));
}

TEST_F(TwoPlaces, OneByteLessIsTooLittleInEach) {
  SecondPlace& second = *plan->slower->second;
  --*second.first_budget;
  expect(Rule::place_over_budget, "the copies in the first place of slower memory take");
  ++*second.first_budget;
  --*second.budget;
  expect(Rule::place_over_budget, "the copies in the second place of slower memory take");
}

TEST_F(TwoPlaces, ACopyAcrossTheBorder) {
  plan->slower->second->begin -= 1;
  expect(Rule::over_border, "lies across the border of places");
}

TEST_F(TwoPlaces, AFirstPlaceThatIsLargerThanItsCopies) {
  const Bytes more = 4096;
  for (Copy& copy : plan->slower->copies) {
    if (copy.offset >= plan->slower->second->begin) copy.offset += more;
  }
  plan->slower->second->begin += more;
  plan->slower->bytes += more;
  plan->slower->second->first_budget.reset();
  expect(Rule::wrong_claim, "bytes of the first place of slower memory");
}

TEST_F(TwoPlaces, AnotherSizeOfBoth) {
  plan->slower->bytes += 1;
  expect(Rule::wrong_claim, "bytes of slower memory, but it takes");
}

TEST_F(TwoPlaces, AreKeptInFilesOfTheFourthVersion) {
  const std::string text = format_plan(*plan);
  EXPECT_THAT(text, HasSubstr("\"version\":4"));
  EXPECT_EQ(parse_plan(text).slower, plan->slower);
  plan->slower->second->budget.reset();
  EXPECT_EQ(parse_plan(format_plan(*plan)).slower, plan->slower);
}

std::string second_place_error(const std::string& object) {
  try {
    parse_plan(R"({"format": "lowtide-plan", "version": 4, "actions": [], "cost": 0,
                   "peak_bytes": 0, "second_place": )" +
               object + "}");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(SecondPlaceErrors, KeysNameWhatIsWrong) {
  EXPECT_EQ(second_place_error(R"({"begin": 0, "lane_out": [0, 1], "lane_in": [0, 1]})"),
            "no error");
  EXPECT_THAT(second_place_error("{}"), HasSubstr("\"second_place\" the key \"begin\" is missing"));
  EXPECT_THAT(second_place_error(R"({"begin": -1, "lane_out": [0, 1], "lane_in": [0, 1]})"),
              HasSubstr("\"begin\" must be 0 or more"));
  EXPECT_THAT(second_place_error(R"({"begin": 0, "lane_out": [0, -1], "lane_in": [0, 1]})"),
              HasSubstr("has a negative time"));
  EXPECT_THAT(
      second_place_error(R"({"begin": 0, "lane_out": [0, 1], "lane_in": [0, 1], "budgets": [1]})"),
      HasSubstr("must be [bytes or null, bytes or null]"));
}

/// The copies of one place do not hold up those of the other.
TEST(LaneClockOfTwoPlaces, EachHasItsOwnLanes) {
  LaneClock clock({.first = {.out = {1, 0}, .in = {2, 0}},
                   .second = {.out = {3, 0}, .in = {5, 0}, .shared = true}});
  EXPECT_EQ(clock.start_out(1, PlaceIndex::second), 3);
  EXPECT_EQ(clock.start_in(1, PlaceIndex::second), 8);  // after the copy out
  EXPECT_EQ(clock.start_out(1), 1);
  EXPECT_EQ(clock.start_in(1), 2);
  EXPECT_EQ(clock.in_free(PlaceIndex::first), 2);
  EXPECT_EQ(clock.in_free(PlaceIndex::second), 8);
}

/// However copies are divided, the later of two lanes ends no sooner than the one for both.
TEST(LanesTogether, AreNeverSlowerThanTheTwo) {
  std::mt19937_64 random(1);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Lane one = testing::some_lanes(seed).in, other = testing::some_lanes(seed + 1).in;
    const Lane both = together(one, other);
    double of_one = 0, of_other = 0, of_both = 0;
    for (int i = 0; i < 8; ++i) {
      const auto bytes = static_cast<Bytes>(random() % 4096);
      (random() % 2 == 0 ? of_one += one.time(bytes) : of_other += other.time(bytes));
      of_both += both.time(bytes);
    }
    EXPECT_LE(of_both, std::max(of_one, of_other) * (1 + 1e-12)) << seed;
  }
}

void corrupt(Plan& plan, std::mt19937_64& random) {
  SlowerMemory& slower = *plan.slower;
  SecondPlace& second = *slower.second;
  const auto below = [&](std::size_t n) { return static_cast<Bytes>(random() % n); };
  Copy& copy = slower.copies[at(below(slower.copies.size()))];
  switch (below(8)) {
    case 0: second.begin += below(3) - 1; break;
    case 1: second.begin = 4096 * below(6); break;
    case 2: *second.first_budget += below(3) - 1; break;
    case 3: *second.budget += below(3) - 1; break;
    case 4: copy.offset += 64 * (below(9) - 4); break;
    case 5: copy.offset = second.begin; break;
    case 6: second.lanes.in.latency += 1; break;
    default: slower.bytes += below(3) - 1; break;
  }
}

TEST(OtherLanes, GiveAPlanTheTimeThatItTakesByThem) {
  for (std::uint64_t seed = 0; seed < testing::sweep(600u, 60u); ++seed) {
    const testing::RandomMoves moves = some_moves(seed);
    const std::optional<Plan> plan = some_plan(moves, seed);
    if (!plan) continue;
    const PlaceLanes lanes = lanes_of_places(*plan);
    const PlaceLanes slower{slowed(lanes.first, 3), slowed(lanes.second, 3)};
    const Plan other = with_lanes(moves.graph, *plan, slower);
    EXPECT_TRUE(testing::is_valid_plan(moves.graph, other)) << seed;
    EXPECT_GE(other.cost, plan->cost);
    EXPECT_FALSE(other.lower_bound);
    const PlaceTimes before = times_of_copies(moves.graph, *plan);
    const PlaceTimes after = times_of_copies(moves.graph, other);
    EXPECT_DOUBLE_EQ(after.first, 3 * before.first);
    EXPECT_DOUBLE_EQ(after.second, 3 * before.second);
    EXPECT_LE(other.cost, plan->cost + after.first + after.second) << "waits for more than copies";
    EXPECT_EQ(with_lanes(moves.graph, other, lanes).cost, plan->cost);
  }
}

TEST(OtherLanes, ChangeNothingWhereNothingMoves) {
  const Graph graph = testing::random_graph(3);
  const Plan plan = keep_all(graph);
  EXPECT_EQ(with_lanes(graph, plan, {{{1, 1}, {1, 1}}}).cost, plan.cost);
  EXPECT_EQ(times_of_copies(graph, plan).first, 0);
}

TEST(TwoPlacesProperty, TheVerifierAgreesWithThePythonChecker) {
  std::deque<testing::RandomMoves> moves;
  std::deque<Plan> plans;
  std::vector<testing::PlanCase> cases;
  for (std::uint64_t seed = 0; cases.size() < testing::sweep(1500u, 300u); ++seed) {
    const testing::RandomMoves& one = moves.emplace_back(some_moves(seed));
    std::optional<Plan> plan = some_plan(one, seed);
    if (!plan) continue;
    std::mt19937_64 random(seed);
    if (seed % 4 != 0) corrupt(*plan, random);
    cases.push_back({&one.graph, &plans.emplace_back(*std::move(plan))});
  }
  const auto verdicts = testing::python_verdicts(cases);
  std::map<std::string_view, int> seen;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto violation = verify(*cases[i].graph, *cases[i].plan);
    ++seen[violation ? name(violation->rule) : "valid"];
    EXPECT_EQ(!violation, verdicts[i].valid)
        << i << ": " << (violation ? violation->message : "valid") << " / " << verdicts[i].error;
  }
  for (Rule rule : {Rule::over_border, Rule::place_over_budget, Rule::wrong_claim, Rule::overlap}) {
    EXPECT_TRUE(seen.contains(name(rule))) << name(rule);
  }
  EXPECT_GE(seen["valid"], 50);
}

}  // namespace
}  // namespace lowtide
