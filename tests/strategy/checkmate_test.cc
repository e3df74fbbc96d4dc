// Checkmate's program, its solutions, and its files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <interfaces/highs_c_api.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "graph/io.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "solver/highs.h"
#include "strategy/checkmate/files.h"
#include "strategy/checkmate/incumbent.h"
#include "strategy/checkmate/rounding.h"
#include "support/ask.h"
#include "support/check_plan.h"
#include "support/random_graph.h"
#include "support/some_plans.h"
#include "support/sweep.h"
#include "support/throws.h"
#include "support/tiny_graphs.h"

namespace lowtide::strategy {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using testing::ask;
using testing::Candidate;
using ::testing::HasSubstr;
using testing::kNever;
using testing::least_cost;
using testing::random_graph;
using testing::some_events;
using ::testing::StartsWith;
using testing::Tiny;
using testing::TinyGraphs;

constexpr checkmate::Formulation kFormulations[] = {
    checkmate::Formulation::ends, checkmate::Formulation::paper, checkmate::Formulation::strong};

Graph data_graph(const std::string& name) {
  return read_graph(LOWTIDE_SOURCE_DIR "/data/graphs/" + name + ".json");
}

/// The budget of the peers' table: at this share of the distance from the floor to keep-all.
Bytes between_floor_and_keep_all(const Graph& graph, double share) {
  const Bytes floor = structural_floor(graph).bytes;
  const Bytes width = keep_all_reference(graph).peak_bytes - floor;
  return floor + static_cast<Bytes>(share * static_cast<double>(width));
}

Plan lowered(const Graph& graph, const std::vector<OpId>& executions) {
  return with_in_place(graph, lower(graph, executions));
}

// ---- The model ---------------------------------------------------------------------------------

/// The useful ones among those events: the only ones that the model has.
std::vector<remat::Event> known_events(const Graph& graph, const remat::StageGraph& stages,
                                       const std::vector<remat::Event>& events) {
  const checkmate::StageModel model(graph, stages, keep_all_reference(graph).peak_bytes,
                                    checkmate::Formulation::ends);
  return model.events_of(model.values_of(events));
}

TEST(StageModel, HasThePlansWithinTheBudgetAndNoOthers) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph =
        random_graph(seed, {.ops = 8 + static_cast<int>(seed % 30), .in_place = false});
    const remat::StageGraph stages(graph);
    const auto events = known_events(graph, stages, some_events(stages, seed, 8));
    const Plan plan = lower(graph, remat::executions_of(stages, events));
    if (plan.peak_bytes <= stages.resident_bytes() + 8) continue;
    for (const checkmate::Formulation form : kFormulations) {
      const checkmate::StageModel model(graph, stages, plan.peak_bytes, form);
      const std::vector<double> values = model.values_of(events);
      EXPECT_LE(solver::largest_violation(model.program(), values), 1e-9);
      EXPECT_NEAR(model.cost_of(solver::objective(model.program(), values)), plan.cost, 1e-6);
      if (form == checkmate::Formulation::ends) continue;
      const checkmate::StageModel tighter(graph, stages, plan.peak_bytes - 1, form);
      const double byte = 1 / static_cast<double>(plan.peak_bytes - stages.resident_bytes());
      EXPECT_GT(solver::largest_violation(tighter.program(), tighter.values_of(events)),
                0.9 * byte);
    }
  }
}

TEST(StageModel, HasThePlansThatFitByWritingInPlace) {
  int saved = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph = random_graph(seed, {.ops = 8 + static_cast<int>(seed % 30)});
    const remat::StageGraph stages(graph);
    const auto events = known_events(graph, stages, some_events(stages, seed, 8));
    const auto executions = remat::executions_of(stages, events);
    const Plan plan = lowered(graph, executions);
    saved += plan.peak_bytes < lower(graph, executions).peak_bytes;
    for (const checkmate::Formulation form : kFormulations) {
      const checkmate::StageModel model(graph, stages, plan.peak_bytes, form);
      EXPECT_LE(solver::largest_violation(model.program(), model.values_of(events)), 1e-9);
    }
  }
  EXPECT_GE(saved, 5);
}

TEST(StageModel, SeesTheInsideOfTheStagesThatItIsAskedFor) {
  const Graph graph = random_graph(11, {.ops = 40, .in_place = false});
  const remat::StageGraph stages(graph);
  const auto events = known_events(graph, stages, some_events(stages, 11, 8));
  remat::EventPlan plan(stages, 0);
  for (const remat::Event event : events) plan.add(event);
  int hidden = 0;
  for (int t = 0; t < stages.num_stages(); ++t) {
    const Bytes budget = plan.memory().at(t) - 1;
    if (plan.memory().at(t) < plan.memory().peak() || budget <= stages.resident_bytes()) continue;
    std::vector<bool> inside(stages.num_stages());
    inside[t] = true;
    const checkmate::StageModel model(graph, stages, budget, checkmate::Formulation::ends, inside);
    EXPECT_GT(solver::largest_violation(model.program(), model.values_of(events)), 0) << t;
    const checkmate::StageModel blind(graph, stages, budget, checkmate::Formulation::ends);
    hidden += solver::largest_violation(blind.program(), blind.values_of(events)) == 0;
  }
  EXPECT_GT(hidden, 0);
}

TEST(StageModel, KnowsItsSizeBeforehand) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = random_graph(seed, {.ops = 40});
    const remat::StageGraph stages(graph);
    const Bytes budget = keep_all_reference(graph).peak_bytes;
    std::vector<std::optional<checkmate::Paging>> pagings(stages.num_values());
    for (std::size_t v = seed % 3; v < pagings.size(); v += 3) pagings[v] = {1, 2};
    for (const checkmate::Formulation form : kFormulations) {
      const auto size = checkmate::StageModel::size(graph, stages, budget, form, pagings);
      const checkmate::StageModel model(graph, stages, budget, form, {}, pagings);
      EXPECT_EQ(size.columns, model.program().num_columns());
      EXPECT_EQ(size.rows, model.program().num_rows());
    }
  }
}

TEST(StageModel, NamesEachColumnAndFindsRuns) {
  const Graph graph = random_graph(3, {.ops = 20});
  const remat::StageGraph stages(graph);
  const std::vector<std::optional<checkmate::Paging>> pagings(stages.num_values(),
                                                              checkmate::Paging{1, 2});
  const checkmate::StageModel model(graph, stages, 1 << 20, checkmate::Formulation::strong, {},
                                    pagings);
  std::set<std::string> names;
  for (int j = 0; j < model.program().num_columns(); ++j) {
    const std::string name = model.column_name(j);
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(model.find_run(name), name[0] == 'R' ? std::optional(j) : std::nullopt);
  }
  for (const char* name :
       {"R_", "R_1", "R_1_", "R_0_1", "R_1_1_1", "R_1_1x", "R_999_0", "R_-1_0", "r_1_1", ""}) {
    EXPECT_EQ(model.find_run(name), std::nullopt) << name;
  }
}

TEST(DualBound, IsBelowTheOptimumAtAnyMultipliersAndThereAtTheSolvers) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  const Graph graph = testing::chain_graph(8);
  const remat::StageGraph stages(graph);
  const checkmate::StageModel model(graph, stages, testing::share_of_peak(graph, 0.6),
                                    checkmate::Formulation::strong);
  solver::SolverRequest asked;
  asked.relaxed = true;
  const solver::Solved solved = solver::solve_with_highs(model.program(), asked, Control());
  ASSERT_EQ(solved.status, solver::Solved::Status::optimal);
  EXPECT_NEAR(solver::dual_bound(model.program(), solved.row_duals), solved.bound,
              1e-6 * solved.bound);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> duals = solved.row_duals;
    for (double& dual : duals) dual += 0.1 * trial * normal(random);
    ASSERT_LE(solver::dual_bound(model.program(), duals), solved.bound * (1 + 1e-9));
  }
}

TEST(Rounding, KeepsEverythingOrNothingAtTheEnds) {
  const Graph graph = testing::chain_graph(5);
  const remat::StageGraph stages(graph);
  const auto none = [](int, int) { return 0.0; };
  EXPECT_TRUE(checkmate::rounded(stages, none, 0).empty());
  // Each backward op b5 ... b1 makes its two activations again, from the beginning; the gradients
  // too, down to the output.
  const auto plan =
      lower(graph, remat::executions_of(stages, checkmate::rounded(stages, none, 1)));
  EXPECT_GT(plan.cost, 3 * keep_all_reference(graph).cost);
}

TEST(Rounding, OfAModelWithoutHeldValuesIsThatOfNothing) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = testing::random_step(seed, 10, 8);
    const remat::StageGraph stages(graph);
    const checkmate::StageModel model(graph, stages, keep_all_reference(graph).peak_bytes,
                                      checkmate::Formulation::ends);
    const std::vector<double> zeros(model.program().num_columns());
    const auto by_model = [&](int t, int v) { return model.held(zeros, t, v); };
    EXPECT_EQ(checkmate::rounded(stages, by_model, 1),
              checkmate::rounded(stages, [](int, int) { return 0.0; }, 1));
  }
}

// ---- The strategies ----------------------------------------------------------------------------

/// One byte below the minimum of any plan, the minimum, halfway, and one byte below keep-all.
std::vector<Bytes> telling_budgets(const Tiny& tiny, Bytes Candidate::* peak) {
  const Bytes least = (*std::ranges::min_element(tiny.plans, {}, peak)).*peak;
  const Bytes keep_all = tiny.plans.front().*peak;
  return {least - 1, least, least + (keep_all - least) / 2, keep_all - 1};
}

template <typename Check>
void on_tiny_graphs(std::uint64_t first_seed, int count, Bytes Candidate::* peak, Check check) {
  TinyGraphs graphs(first_seed, peak == &Candidate::in_place_peak);
  while (count > 0) {
    const Tiny tiny = graphs.next();
    SCOPED_TRACE(tiny.graph.name());
    const std::vector<Bytes> budgets = telling_budgets(tiny, peak);
    if (budgets[1] > budgets[3]) continue;  // nothing helps
    --count;
    for (Bytes budget : budgets) {
      SCOPED_TRACE(::testing::Message() << "budget " << budget);
      check(tiny, budget);
    }
  }
}

TEST(Checkmate, ReachesTheOptimumByTheSolverAlone) {
  int rerunning = 0;
  const int graphs = testing::sweep(15, 5);
  on_tiny_graphs(0, graphs, &Candidate::peak, [&](const Tiny& tiny, Bytes budget) {
    const double optimum = least_cost(tiny.plans, &Candidate::peak, budget);
    for (const std::string form : {"ends", "paper", "strong"}) {
      const Decision decision =
          ask("checkmate", tiny.graph, budget, {{"formulation", form}, {"start", 0}});
      if (optimum == kNever) {
        EXPECT_EQ(decision.outcome, Outcome::infeasible) << form;
        EXPECT_THAT(decision.message, AnyOf(StartsWith("no plan is"), StartsWith("no plan that")))
            << form;
        continue;
      }
      ASSERT_FALSE(decision.executions.empty()) << form << ": " << decision.message;
      const Plan plan = lower(tiny.graph, decision.executions);
      EXPECT_LE(plan.peak_bytes, budget);
      EXPECT_NEAR(plan.cost, optimum, 1e-6) << form;
      ASSERT_TRUE(decision.lower_bound);
      EXPECT_LE(*decision.lower_bound, optimum * (1 + 1e-9)) << form;
      if (form != "ends") {
        EXPECT_EQ(decision.outcome, Outcome::optimal) << form;
      }
      rerunning += optimum > tiny.stages.required_cost();
    }
  });
  EXPECT_GT(rerunning, 20);
}

TEST(Checkmate, CountsInPlaceWrites) {
  int better = 0;
  on_tiny_graphs(500, 20, &Candidate::in_place_peak, [&](const Tiny& tiny, Bytes budget) {
    const double optimum = least_cost(tiny.plans, &Candidate::in_place_peak, budget);
    const Decision decision = ask("checkmate", tiny.graph, budget, {{"start", 0}});
    if (decision.lower_bound) {
      EXPECT_LE(*decision.lower_bound, optimum * (1 + 1e-9));
    }
    if (decision.message.starts_with("no plan is")) {
      EXPECT_EQ(optimum, kNever);
    }
    if (decision.executions.empty()) return;
    const Plan plan = lowered(tiny.graph, decision.executions);
    EXPECT_LE(plan.peak_bytes, budget);
    EXPECT_GE(plan.cost, optimum - 1e-6);
    if (decision.outcome == Outcome::optimal) {
      EXPECT_NEAR(plan.cost, optimum, 1e-6);
    }
    better += plan.cost < least_cost(tiny.plans, &Candidate::peak, budget) - 1e-6;
  });
  EXPECT_GT(better, 0);
}

TEST(CheckmateLp, BoundsTheOptimumAndItsPlansFit) {
  int plans = 0;
  on_tiny_graphs(2000, 25, &Candidate::peak, [&](const Tiny& tiny, Bytes budget) {
    const double optimum = least_cost(tiny.plans, &Candidate::peak, budget);
    const Decision decision = ask("checkmate-lp", tiny.graph, budget);
    if (decision.executions.empty()) {
      ASSERT_TRUE(decision.smallest_peak);
      EXPECT_GT(*decision.smallest_peak, budget);
      return;
    }
    ++plans;
    const Plan plan = lower(tiny.graph, decision.executions);
    EXPECT_LE(plan.peak_bytes, budget);
    EXPECT_LE(*decision.lower_bound, optimum * (1 + 1e-9));
    EXPECT_GE(plan.cost, optimum - 1e-6);
  });
  EXPECT_GT(plans, 25);
}

struct Known {
  const char* graph;
  double share;     ///< of the distance from the floor to keep-all
  double overhead;  ///< of the best plan
};

TEST(Checkmate, ProvesWhatIsKnownOfNetworks) {
  for (const Known& known :
       {Known{"checkmate-vgg16", 0.5, 0}, Known{"checkmate-vgg16", 0.1, 0.001868},
        Known{"checkmate-fcn-8-vgg", 0.25, 0.001655}, Known{"chain-20s0", 0.3, 0.107201}}) {
    SCOPED_TRACE(::testing::Message() << known.graph << " at " << known.share);
    const Graph graph = data_graph(known.graph);
    const Bytes budget = between_floor_and_keep_all(graph, known.share);
    const Decision decision = ask("checkmate", graph, budget);
    EXPECT_EQ(decision.outcome, Outcome::optimal);
    EXPECT_EQ(decision.bound_model, "fixed-order");
    Plan plan = lowered(graph, decision.executions);
    const double reference = keep_all_reference(graph).cost;
    EXPECT_NEAR(plan.cost / reference - 1, known.overhead, 1e-6);
    EXPECT_NEAR(*decision.lower_bound, plan.cost, 1e-8 * plan.cost);
    plan.budget_bytes = budget;
    EXPECT_TRUE(testing::is_valid_plan(graph, plan));
    const Decision relaxed = ask("checkmate-lp", graph, budget);
    ASSERT_FALSE(relaxed.executions.empty());
    EXPECT_LE(*relaxed.lower_bound, *decision.lower_bound * (1 + 1e-9));
    EXPECT_GE(lower(graph, relaxed.executions).cost, plan.cost * (1 - 1e-9));
  }
}

TEST(Checkmate, GivesItsBestPlanAndBoundWhenStopped) {
  const Graph graph = data_graph("layered-100");
  const Bytes budget = between_floor_and_keep_all(graph, 0.5);
  int reports = 0;
  Control control(0, [&](const std::string& message) {
    if (message.find("bound") == std::string::npos || message.find("plan") != 0) return;
    ++reports;
    Control::request_stop();
  });
  const Strategy& checkmate = find_strategy("checkmate");
  const StrategyOptions options = complete_options(checkmate, {{"rows", 0}});
  const Decision decision = checkmate.decide({graph, budget, options, control});
  Control::clear_stop();
  EXPECT_GE(reports, 1);
  EXPECT_EQ(decision.outcome, Outcome::feasible);
  const Plan plan = lowered(graph, decision.executions);
  EXPECT_LE(plan.peak_bytes, budget);
  EXPECT_LT(*decision.lower_bound, plan.cost);
  EXPECT_GE(*decision.lower_bound, keep_all_reference(graph).cost);
}

TEST(Checkmate, IsStoppedAndNotInfeasibleWhenTimeIsUp) {
  const Graph graph = data_graph("layered-100");
  const Bytes budget = between_floor_and_keep_all(graph, 0.3);
  Control control(1e-6);
  for (const char* name : {"checkmate", "checkmate-lp"}) {
    StrategyOptions options = default_options(find_strategy(name));
    options["start"] = 0;
    const Decision decision = find_strategy(name).decide({graph, budget, options, control});
    EXPECT_EQ(decision.outcome, Outcome::stopped) << name;
  }
}

TEST(Checkmate, RefusesWhatIsTooLargeWithTheSizeAndAWayOn) {
  const Graph graph = data_graph("torch-lstm");
  const Bytes budget = testing::share_of_peak(graph, 0.6);
  const auto says_how = AllOf(HasSubstr("rows and"), HasSubstr("search"), HasSubstr("-O rows=0"));
  for (const char* name : {"checkmate", "checkmate-lp"}) {
    EXPECT_THROWS_INPUT_ERROR(ask(name, graph, budget), says_how);
  }
}

// ---- Files -------------------------------------------------------------------------------------

class Files : public ::testing::Test {
 protected:
  const Graph graph_ = testing::chain_graph(8);
  const remat::StageGraph stages_ = remat::StageGraph(graph_);
  const Bytes budget_ = testing::share_of_peak(graph_, 0.75);
  const checkmate::StageModel model_ =
      checkmate::StageModel(graph_, stages_, budget_, checkmate::Formulation::strong);

  std::vector<remat::Event> parsed(std::string_view text) const {
    return checkmate::parse_solution(model_, text, "x.sol");
  }
};

TEST_F(Files, AnExportedModelSolvedElsewhereGivesTheOptimum) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / "lowtide-checkmate-files";
  fs::create_directories(folder);
  write_file(folder / "model.mps", checkmate::format_mps(model_, "a name"));
  void* const highs = Highs_create();
  Highs_setBoolOptionValue(highs, "output_flag", 0);
  Highs_setDoubleOptionValue(highs, "mip_rel_gap", 0);
  ASSERT_EQ(Highs_readModel(highs, (folder / "model.mps").c_str()), kHighsStatusOk);
  EXPECT_EQ(Highs_getNumCol(highs), model_.program().num_columns());
  EXPECT_EQ(Highs_getNumRow(highs), model_.program().num_rows());
  ASSERT_EQ(Highs_run(highs), kHighsStatusOk);
  ASSERT_EQ(Highs_getModelStatus(highs), kHighsModelStatusOptimal);
  const double found = Highs_getObjectiveValue(highs);
  Highs_writeSolution(highs, (folder / "model.sol").c_str());
  Highs_destroy(highs);
  const auto events =
      checkmate::parse_solution(model_, read_file(folder / "model.sol"), "model.sol");
  fs::remove_all(folder);
  Plan plan = lowered(graph_, remat::executions_of(stages_, events));
  EXPECT_NEAR(plan.cost, model_.cost_of(found), 1e-6);
  EXPECT_NEAR(plan.cost, lower(graph_, ask("checkmate", graph_, budget_).executions).cost, 1e-9);
  EXPECT_TRUE(testing::is_valid_plan(graph_, plan, budget_));
}

TEST_F(Files, SolutionsOfSeveralSolversAreRead) {
  EXPECT_EQ(parsed("# Objective = 3\nR_0_0 1\nR_9_1 1\nU_0_0 0.25\nR_10_0 0.99999\nR_9_0 0\n"),
            (std::vector<remat::Event>{{10, 0}, {9, 1}}));  // Gurobi
  EXPECT_EQ(parsed("solution status: optimal\nobjective:  3\r\nR_9_1    1 \t(obj:0.1)\n").size(),
            1u);  // SCIP
  EXPECT_EQ(parsed("Optimal - objective value 3\n   17 R_9_1  1  0.1\n 18 S_4_1 1 0\n").size(),
            1u);  // CBC
  EXPECT_EQ(parsed("<variables>\n <variable name=\"R_9_1\" index=\"7\" value=\"1\"/>\n"
                   " <variable name=\"S_9_1\" index=\"9\" value=\"1\"/>\n</variables>")
                .size(),
            1u);  // CPLEX
  EXPECT_EQ(parsed("# Primal solution values\nR_9_1 0\n# Dual solution values\nR_9_1 1\n").size(),
            0u);  // HiGHS
}

TEST_F(Files, WhatIsNoSolutionOfTheModelIsRefused) {
  EXPECT_THROWS_INPUT_ERROR(parsed(""), HasSubstr("x.sol lists no variable R_"));
  EXPECT_THROWS_INPUT_ERROR(parsed("R_0_0 1\nR_99_1 1\n"), HasSubstr("x.sol, line 2: R_99_1"));
  EXPECT_THROWS_INPUT_ERROR(parsed("R_0_0\n"), HasSubstr("line 1"));
  EXPECT_THROWS_INPUT_ERROR(parsed("R_0_0 one\n"), HasSubstr("\"one\""));
}

}  // namespace
}  // namespace lowtide::strategy
