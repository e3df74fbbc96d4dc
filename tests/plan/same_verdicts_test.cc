#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layout/layout.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/verify.h"
#include "support/check_plan.h"
#include "support/random_graph.h"
#include "support/random_moves.h"

namespace lowtide {
namespace {

using testing::random_executions;
using testing::random_graph;

/// Changes a valid plan in one way that a seed draws.
class Corrupter {
 public:
  Corrupter(const Graph& graph, std::uint64_t seed) : graph_(graph), random_(seed) {}

  void corrupt(Plan& plan) {
    switch (below(9)) {
      case 0: erase(plan); break;
      case 1: plan.actions.insert(some(plan), *some(plan)); break;
      case 2: std::iter_swap(some(plan), some(plan)); break;
      case 3: reindex(*some(plan)); break;
      case 4: some(plan)->verb = static_cast<Verb>(below(5)); break;
      case 5: toggle_in_place(*some(plan)); break;
      case 6: plan.budget_bytes = plan.peak_bytes + 32 * (below(3) - 1); break;
      case 7: move(plan); break;
      default: forget(plan); break;
    }
    tidy(plan);
  }

  /// Of a plan with lanes and copies: what has to do with these.
  void corrupt_moves(Plan& plan) {
    switch (below(plan.slower->residents.empty() ? 8 : 10)) {
      case 8: erase_whole_copy(plan); break;
      case 9: erase_a_free(plan); break;
      case 0: erase(plan, some_copying(plan)); break;
      case 1: insert_copying(plan); break;
      case 2: swap_with_next(plan, some_copying(plan)); break;
      case 3: swap_with_next(plan, below(plan.actions.size())); break;
      case 4: plan.actions[some_copying(plan)].verb = some_copying_verb(); break;
      case 5: plan.actions[some_copying(plan)].index = below(graph_.num_tensors()); break;
      case 6: change(plan.slower->lanes); break;
      default: change(*plan.slower); break;
    }
    tidy(plan);
  }

 private:
  int below(std::size_t n) { return static_cast<int>(random_() % n); }
  std::vector<Action>::iterator some(Plan& plan) {
    return plan.actions.begin() + below(plan.actions.size());
  }

  static bool copies(const Action& action) {
    return action.verb != Verb::run && action.verb != Verb::free;
  }
  Verb some_copying_verb() {
    constexpr Verb kVerbs[] = {Verb::offload, Verb::prefetch, Verb::wait};
    return kVerbs[below(std::size(kVerbs))];
  }
  int some_copying(const Plan& plan) {
    std::vector<int> all;
    for (std::size_t i = 0; i < plan.actions.size(); ++i) {
      if (copies(plan.actions[i])) all.push_back(static_cast<int>(i));
    }
    return all[below(all.size())];
  }

  /// Mostly of a value that moves, and often with a wait for it.
  void insert_copying(Plan& plan) {
    const std::int32_t storage = below(4) ? plan.actions[some_copying(plan)].index
                                          : below(graph_.num_tensors());
    const int at = below(plan.actions.size() + 1);
    insert(plan, at, {some_copying_verb(), storage, {}});
    if (below(2)) insert(plan, at + 1, {Verb::wait, storage, {}});
  }

  /// A copy out or in, and the wait for it.
  void erase_whole_copy(Plan& plan) {
    const int at = some_copying(plan);
    const std::int32_t storage = plan.actions[at].index;
    erase_at(plan, at);
    for (int i = at; i < static_cast<int>(plan.actions.size()); ++i) {
      if (plan.actions[i] == Action{Verb::wait, storage, {}}) return erase_at(plan, i);
    }
  }

  /// The last one: in most plans of a resident.
  static void erase_a_free(Plan& plan) {
    for (int i = static_cast<int>(plan.actions.size()); i-- > 0;) {
      if (plan.actions[i].verb == Verb::free) return erase_at(plan, i);
    }
  }

  static void erase_at(Plan& plan, int at) {
    plan.actions.erase(plan.actions.begin() + at);
    plan.layout->placements.erase(plan.layout->placements.begin() + at);
  }

  static void insert(Plan& plan, int at, const Action& action) {
    plan.actions.insert(plan.actions.begin() + at, action);
    plan.layout->placements.emplace(plan.layout->placements.begin() + at);
  }

  /// With the addresses that belong to them.
  static void swap_with_next(Plan& plan, int at) {
    if (at + 1 == static_cast<int>(plan.actions.size())) return;
    std::swap(plan.actions[at], plan.actions[at + 1]);
    std::swap(plan.layout->placements[at], plan.layout->placements[at + 1]);
  }

  void change(Lanes& lanes) {
    Lane& lane = below(2) ? lanes.out : lanes.in;
    switch (below(3)) {
      case 0: lane.latency += 1 + below(9); break;
      case 1: lane.per_byte = lane.per_byte * 2 + 0.125; break;
      default: lanes.shared = !lanes.shared; break;
    }
  }

  void change(SlowerMemory& slower) {
    Copy& copy = slower.copies[below(slower.copies.size())];
    std::vector<TensorId>& residents = slower.residents;
    switch (below(residents.empty() ? 5 : 7)) {
      case 5: residents.push_back(below(graph_.num_tensors())); break;
      case 6: residents.erase(residents.begin() + below(residents.size())); break;
      case 0: slower.bytes += below(3) - 1; break;
      case 1: copy.storage = below(graph_.num_tensors()); break;
      case 2: copy.offset = slower.copies[below(slower.copies.size())].offset; break;
      case 3: copy.offset += 64 * (below(9) - 4); break;
      default: slower.copies.erase(slower.copies.begin() + below(slower.copies.size())); break;
    }
  }

  void tidy(Plan& plan) const {
    for (Action& action : plan.actions) clamp(action);
    plan.layout->placements.resize(plan.actions.size());
  }

  void erase(Plan& plan) { erase(plan, below(plan.actions.size())); }

  /// With or without the addresses that belong to the action.
  void erase(Plan& plan, int at) {
    plan.actions.erase(plan.actions.begin() + at);
    if (below(2)) plan.layout->placements.erase(plan.layout->placements.begin() + at);
  }

  void reindex(Action& action) { action.index += below(5) - 2; }

  void toggle_in_place(Action& action) {
    if (action.in_place.empty()) {
      action.in_place = {0};
    } else {
      action.in_place.clear();
    }
  }

  void move(Plan& plan) {
    auto& born = plan.layout->placements[below(plan.layout->placements.size())];
    if (!born.empty()) born[below(born.size())].offset += 64 * (below(7) - 3);
  }

  void forget(Plan& plan) {
    auto& born = plan.layout->placements[below(plan.layout->placements.size())];
    if (!born.empty()) born.erase(born.begin() + below(born.size()));
  }

  /// Indices stay in range: Python accepts others.
  void clamp(Action& action) const {
    const int count = action.verb == Verb::run ? graph_.num_ops() : graph_.num_tensors();
    action.index = ((action.index % count) + count) % count;
    if (action.verb != Verb::run) action.in_place.clear();
  }

  const Graph& graph_;
  std::mt19937_64 random_;
};

/// By the rule that the verifier finds broken, or "valid": how many.
using Seen = std::map<std::string_view, int>;

/// The verifier and check_plan.py agree on whether each plan is valid.
Seen expect_same_verdicts(const std::vector<testing::PlanCase>& cases) {
  const auto verdicts = testing::python_verdicts(cases);
  Seen seen;
  for (std::size_t seed = 0; seed < cases.size(); ++seed) {
    const auto violation = verify(*cases[seed].graph, *cases[seed].plan);
    const bool valid = !violation;
    ++seen[violation ? name(violation->rule) : "valid"];
    EXPECT_EQ(valid, verdicts[seed].valid)
        << "seed " << seed << ": the verifier says "
        << (violation ? fmt::format("{} at {}: {}", name(violation->rule), violation->action,
                                    violation->message)
                      : "valid")
        << ", check_plan.py says " << (valid ? verdicts[seed].error : "valid");
  }
  for (const auto& [rule, count] : seen) {
    ::testing::Test::RecordProperty(std::string(rule), count);
  }
  return seen;
}

TEST(VerifyProperty, AgreesWithThePythonCheckerOnCorruptedPlans) {
  std::deque<Graph> graphs;
  std::deque<Plan> plans;
  std::vector<testing::PlanCase> cases;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    const Graph& graph = graphs.emplace_back(random_graph(seed, {.ops = 12}));
    Plan& plan = plans.emplace_back(
        with_in_place(graph, lower(graph, random_executions(graph, seed))));
    plan.layout = layout::assign_addresses(graph, plan);
    Corrupter(graph, seed).corrupt(plan);
    cases.push_back({&graph, &plan});
  }
  EXPECT_GE(expect_same_verdicts(cases).size(), 12u) << "the corruptions reach too few rules";
}

/// So many that each rule is reached.
constexpr std::size_t kCorruptedMoves = 2500;

/// The verdicts on corrupted plans that move something.
Seen verdicts_on_corrupted_moves(testing::Movers movers) {
  std::deque<testing::RandomMoves> moves;
  std::deque<Plan> plans;
  std::vector<testing::PlanCase> cases;
  for (std::uint64_t seed = 0; cases.size() < kCorruptedMoves; ++seed) {
    const testing::RandomMoves& one =
        moves.emplace_back(seed, testing::RandomGraphOptions{.ops = 12}, movers);
    Plan plan = one.scheduled(testing::some_lanes(seed), one.instant().peak_bytes, 1.2);
    if (!plan.slower) continue;
    plan.layout = layout::assign_addresses(one.graph, plan);
    plan.budget_bytes = plan.layout->arena_bytes;
    Corrupter corrupter(one.graph, seed);
    if (seed % 5 == 0) {
      corrupter.corrupt(plan);
    } else {
      corrupter.corrupt_moves(plan);
    }
    cases.push_back({&one.graph, &plans.emplace_back(std::move(plan))});
  }
  return expect_same_verdicts(cases);
}

TEST(VerifyProperty, AgreesWithThePythonCheckerOnCorruptedPlansThatMoveResidents) {
  const Seen seen = verdicts_on_corrupted_moves(testing::Movers::residents_too);
  for (Rule rule : {Rule::bad_resident, Rule::old_copy, Rule::not_away, Rule::copy_under_way}) {
    EXPECT_TRUE(seen.contains(name(rule))) << name(rule);
  }
  EXPECT_TRUE(seen.contains("valid"));
}

TEST(VerifyProperty, AgreesWithThePythonCheckerOnCorruptedPlansThatMoveValues) {
  const Seen seen = verdicts_on_corrupted_moves(testing::Movers::values);
  for (Rule rule : {Rule::copy_under_way, Rule::bad_wait, Rule::bad_prefetch, Rule::no_address,
                    Rule::overlap, Rule::wrong_claim, Rule::negative_address}) {
    EXPECT_TRUE(seen.contains(name(rule))) << name(rule);
  }
  EXPECT_TRUE(seen.contains("valid"));
}

}  // namespace
}  // namespace lowtide
